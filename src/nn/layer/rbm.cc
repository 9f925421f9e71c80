// A restricted Boltzmann machine. It ends a net as a loss does: its gradients are the estimates of contrastive
// divergence, so update rules, gradient exchange and checkpoints work as for any other layer.
#include "kernel/rbm.h"

#include "core/text.h"
#include "kernel/dense.h"
#include "kernel/elementwise.h"
#include "kernel/loss.h"
#include "nn/layer/check.h"
#include "nn/layer/fields.h"

namespace pleiad::nn {
namespace {

class Rbm final : public Layer, public StatefulLayer, public ScoringLayer {
 public:
  explicit Rbm(const RbmOptions& options)
      : o_(options),
        gaussian_visible_(options.visible_units == RbmUnits::gaussian),
        gaussian_hidden_(options.hidden_units == RbmUnits::gaussian) {
    expect_at_least("hidden", o_.hidden, 1);
    expect_at_least("k", o_.k, 1);
    expect_at_least("chains", o_.chains, 0);
    if (o_.weight_param.norm != 0) throw InvalidArgument("weight.norm is not supported for RBMs");
  }

  [[nodiscard]] std::string kind() const override { return "rbm"; }
  [[nodiscard]] std::vector<std::string> scores() const override { return {"loss", "se"}; }
  [[nodiscard]] bool differentiable(std::size_t) const override { return false; }
  [[nodiscard]] Shapes outputs(const Shapes& in) const override {
    expect_inputs(in, 1);
    if (in[0].rank() < 2)
      throw InvalidArgument(fmt::format("expected (batch, visible units); received {}", in[0].text()));
    return Shapes(2, Shape{1});
  }
  [[nodiscard]] std::vector<ParamSpec> parameters(const Shapes& in) const override {
    const std::int64_t visible = width(in[0]);
    return {{.name = "weight",
             .shape = {o_.hidden, visible},
             .wanted = o_.weight_param,
             .fan_in = visible,
             .fan_out = o_.hidden,
             .pieces = true},
            {.name = "hidden_bias", .shape = {o_.hidden}, .wanted = o_.hidden_bias_param},
            {.name = "visible_bias", .shape = {visible}, .wanted = o_.visible_bias_param}};
  }
  [[nodiscard]] std::vector<ParamSpec> states(const Shapes&) const override {
    if (o_.chains == 0) return {};
    return {{.name = "chains",
             .shape = {o_.chains, o_.hidden},
             .wanted = {.init = {.type = "uniform", .low = 0, .high = 1}}}};
  }
  /// The visible units and the hidden units, each with the positive phase above the negative one; the state of the
  /// chains; the weight packed for all upward products; and, with persistent chains, the reconstruction.
  [[nodiscard]] Shapes workspace(const Shapes& in) const override {
    const std::int64_t visible = width(in[0]);
    const std::int64_t rows = in[0][0] + chains(in[0][0]);
    Shapes all = {{rows, visible},
                  {rows, o_.hidden},
                  {chains(in[0][0]), o_.hidden},
                  {kernel::packed_size(upward(in[0][0], visible))}};
    if (o_.chains > 0) all.push_back({in[0][0], visible});
    return all;
  }
  [[nodiscard]] double products(const Shapes& in) const override {
    return static_cast<double>(in[0].count()) * static_cast<double>(o_.hidden) * static_cast<double>(1 + 2 * o_.k);
  }
  [[nodiscard]] std::string summary() const override {
    return fmt::format("{} hidden, {}CD-{}", o_.hidden, o_.chains > 0 ? "persistent " : "", o_.k);
  }

  void forward(Pass& pass) override {
    const std::int64_t batch = pass.x[0].shape()[0];
    const std::int64_t all = pass.workspace[0].shape()[0];
    const Tensor seen = kernel::rows_of(pass.workspace[0], 0, batch);
    const Tensor hidden = kernel::rows_of(pass.workspace[1], 0, batch);
    const Tensor negative = kernel::rows_of(pass.workspace[0], batch, all);
    kernel::copy(seen, pass.x[0]);
    kernel::pack_weight(upward(batch, seen.shape()[1]), pass.parameter[0], pass.workspace[3]);
    up(pass, seen, hidden, kernel::zeros_and_ones(seen));  // as binary data is
    const Tensor reconstruction = o_.chains > 0 ? pass.workspace[4] : negative;
    if (pass.phase != Phase::train) {
      down(pass, hidden, reconstruction);
      return tell(pass, seen, reconstruction);
    }
    const Tensor hidden_negative = kernel::rows_of(pass.workspace[1], batch, all);
    const Tensor& at = pass.workspace[2];
    std::uint64_t draw = 0;
    if (o_.chains > 0) {
      down(pass, hidden, reconstruction);
      kernel::copy(at, pass.state[0]);
    } else {
      sample(pass, draw, gaussian_hidden_, hidden, at);
    }
    for (std::int64_t i = 0; i < o_.k; ++i) {
      down(pass, at, negative, i > 0 || o_.chains == 0);
      if (o_.sample == RbmSample::both) sample(pass, ++draw, gaussian_visible_, negative, negative);
      up(pass, negative, hidden_negative, o_.sample == RbmSample::both && !gaussian_visible_);
      if (i + 1 < o_.k || o_.chains > 0) sample(pass, ++draw, gaussian_hidden_, hidden_negative, at);
    }
    if (o_.chains > 0) kernel::copy(pass.state[0], at);
    tell(pass, seen, reconstruction);
  }

  void backward(Pass& pass) override {
    const std::int64_t batch = pass.x[0].shape()[0];
    const std::int64_t all = pass.workspace[0].shape()[0];
    const double factor = pass.dy[0].at(0);
    kernel::contrast_columns(pass.workspace[0], batch, factor, pass.gradient[2]);
    // The gradient is that of a dense layer by its weight, over the rows of both phases at once.
    kernel::scale(kernel::rows_of(pass.workspace[1], 0, batch), -factor / static_cast<double>(batch));
    kernel::scale(kernel::rows_of(pass.workspace[1], batch, all), factor / static_cast<double>(all - batch));
    kernel::dense_backward(
        {.batch = all, .in = pass.workspace[0].shape()[1], .out = o_.hidden, .activation = {}}, pass.workspace[0],
        pass.parameter[0], pass.workspace[1], pass.workspace[1],
        {.dx = {}, .weight_gradient = pass.gradient[0], .bias_gradient = pass.gradient[1], .update = pass.update[0]});
  }

 private:
  static std::int64_t width(const Shape& in) { return in.count(1, in.rank()); }
  [[nodiscard]] std::int64_t chains(std::int64_t batch) const { return o_.chains > 0 ? o_.chains : batch; }
  static kernel::Activation of(bool gaussian) {
    return {.function = gaussian ? kernel::Function::linear : kernel::Function::sigmoid};
  }
  [[nodiscard]] kernel::Dense upward(std::int64_t batch, std::int64_t visible) const {
    return {.batch = batch, .in = visible, .out = o_.hidden, .activation = of(gaussian_hidden_)};
  }
  /// `picks`: v consists of zeros and ones only.
  void up(const Pass& pass, const Tensor& v, const Tensor& h, bool picks) const {
    kernel::Dense way = upward(v.shape()[0], v.shape()[1]);
    way.picks = picks;
    kernel::dense_forward(way, v, pass.parameter[0], pass.parameter[1], h, pass.workspace[3]);
  }
  /// `sampled`: h was made by `sample`, so it consists of zeros and ones if the hidden units are binary.
  void down(const Pass& pass, const Tensor& h, const Tensor& v, bool sampled = false) const {
    kernel::dense_forward({.batch = h.shape()[0],
                           .in = o_.hidden,
                           .out = v.shape()[1],
                           .transposed = true,
                           .activation = of(gaussian_visible_),
                           .picks = sampled && !gaussian_hidden_ && o_.sample != RbmSample::none},
                          h, pass.parameter[0], pass.parameter[2], v);
  }
  /// The draws of one step take consecutive random numbers. Persistent chains are identical on all ranks.
  void sample(const Pass& pass, std::uint64_t draw, bool gaussian, const Tensor& mean, const Tensor& to) const {
    if (o_.sample == RbmSample::none) return mean.raw() == to.raw() ? void() : kernel::copy(to, mean);
    const std::int64_t widest = std::max(o_.hidden, pass.workspace[0].shape()[1]);
    const kernel::Draw of{.stream = RandomStream(pass.seed, pass.name),
                          .step = pass.step,
                          .first_sample = o_.chains > 0 ? 0 : pass.first_sample,
                          .first_block = draw * static_cast<std::uint64_t>((widest + 3) / 4)};
    gaussian ? kernel::sample_gaussian(of, mean, to) : kernel::sample_binary(of, mean, to);
  }
  static void tell(const Pass& pass, const Tensor& seen, const Tensor& reconstruction) {
    const double se = kernel::squared_distance(seen, reconstruction) / static_cast<double>(seen.shape()[0]);
    pass.y[0].fill(se / 2);
    pass.y[1].fill(se);
  }

  const RbmOptions o_;
  const bool gaussian_visible_;
  const bool gaussian_hidden_;
};

const Fields<RbmOptions>& rbm_fields() {
  using O = RbmOptions;
  static const Fields<O> all = [] {
    Fields<O> list = {field("hidden", &O::hidden, "number of hidden units"),
                      field("visible_units", &O::visible_units, "binary or gaussian"),
                      field("hidden_units", &O::hidden_units, "binary or gaussian"),
                      field("k", &O::k, "number of Gibbs steps"),
                      field("chains", &O::chains, "number of persistent chains; 0 starts chains at the batch"),
                      field("sample", &O::sample, "which units to sample: hidden, both or none")};
    add_param_fields(list, "weight", &O::weight_param);
    add_param_fields(list, "hidden_bias", &O::hidden_bias_param);
    add_param_fields(list, "visible_bias", &O::visible_bias_param);
    return list;
  }();
  return all;
}

}  // namespace

LayerPtr rbm(const RbmOptions& options) { return with_options(std::make_unique<Rbm>(options), rbm_fields(), options); }
LayerPtr rbm_from(const LayerFields& text) { return rbm(read_fields(rbm_fields(), text)); }

}  // namespace pleiad::nn

#include "kernel/norm.h"
#include "nn/layer/check.h"
#include "nn/layer/fields.h"

namespace pleiad::nn {
namespace {

class BatchNorm final : public Layer {
 public:
  explicit BatchNorm(const BatchNormOptions& options) : options_(options) {
    if (options.epsilon <= 0) throw InvalidArgument(fmt::format("epsilon is above 0; received {}", options.epsilon));
    if (options.momentum < 0 || options.momentum > 1) {
      throw InvalidArgument(fmt::format("momentum lies in 0 to 1; received {}", options.momentum));
    }
  }
  [[nodiscard]] std::string kind() const override { return "batch_norm"; }
  [[nodiscard]] bool spatial() const override { return true; }
  [[nodiscard]] Shapes outputs(const Shapes& in) const override {
    expect_inputs(in, 1);
    if (in[0].rank() < 2)
      throw InvalidArgument(fmt::format("expected (batch, ..., channels); received {}", in[0].text()));
    return in;
  }
  [[nodiscard]] std::vector<ParamSpec> parameters(const Shapes& in) const override {
    return {{.name = "scale", .shape = {channels(in)}, .wanted = options_.scale_param},
            {.name = "shift", .shape = {channels(in)}, .wanted = options_.shift_param}};
  }
  [[nodiscard]] std::vector<ParamSpec> states(const Shapes& in) const override {
    const auto constant = [](double value) { return Param{.init = {.type = "constant", .value = value}}; };
    return {{.name = "mean", .shape = {channels(in)}, .wanted = constant(0)},
            {.name = "variance", .shape = {channels(in)}, .wanted = constant(1)}};
  }
  [[nodiscard]] Shapes workspace(const Shapes& in) const override { return {{channels(in)}, {channels(in)}}; }

  void forward(Pass& pass) override {
    const bool training = pass.phase == Phase::train;
    if (training) {
      kernel::column_moments(pass.x[0], pass.workspace[0], pass.workspace[1]);
      remember(pass);
    }
    const std::vector<Tensor>& from = training ? pass.workspace : pass.state;
    kernel::normalise(pass.x[0], from[0], from[1], options_.epsilon, pass.parameter[0], pass.parameter[1], pass.y[0]);
  }
  void backward(Pass& pass) override {
    kernel::normalise_gradients(pass.x[0], pass.workspace[0], pass.workspace[1], options_.epsilon, pass.dy[0],
                                pass.gradient[0], pass.gradient[1]);
    if (pass.dx[0].empty()) return;
    kernel::normalise_input_gradient(pass.x[0], pass.workspace[0], pass.workspace[1], options_.epsilon,
                                     pass.parameter[0], pass.dy[0], pass.dx[0], pass.gradient[0], pass.gradient[1],
                                     pass.x[0].count() / pass.state[0].count());
  }

 private:
  static std::int64_t channels(const Shapes& in) { return in[0][in[0].rank() - 1]; }
  /// The running variance is that of a sample (n - 1), as usual.
  void remember(const Pass& pass) const {
    const double n = static_cast<double>(pass.x[0].count() / pass.state[0].count());
    kernel::blend(pass.state[0], pass.workspace[0], options_.momentum, 1);
    kernel::blend(pass.state[1], pass.workspace[1], options_.momentum, n > 1 ? n / (n - 1) : 1);
  }

  const BatchNormOptions options_;
};

const Fields<BatchNormOptions>& fields() {
  using O = BatchNormOptions;
  static const Fields<O> all = [] {
    Fields<O> list = {field("epsilon", &O::epsilon, "added to the variance"),
                      field("momentum", &O::momentum, "of the running averages")};
    add_param_fields(list, "scale", &O::scale_param);
    add_param_fields(list, "shift", &O::shift_param);
    return list;
  }();
  return all;
}

}  // namespace

LayerPtr batch_norm(const BatchNormOptions& options) { return std::make_unique<BatchNorm>(options); }
LayerPtr batch_norm_from(const LayerFields& text) { return batch_norm(read_fields(fields(), text)); }

}  // namespace pleiad::nn

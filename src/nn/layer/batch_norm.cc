#include "kernel/norm.h"

#include <cmath>

#include "kernel/exact.h"
#include "kernel/types.h"
#include "nn/layer/check.h"
#include "nn/layer/fields.h"

namespace pleiad::nn {
namespace {

class BatchNorm final : public Layer,
                        public SpatialLayer,
                        public CoupledLayer,
                        public StatefulLayer,
                        public ShiftLayer {
 public:
  explicit BatchNorm(const BatchNormOptions& options) : options_(options) {
    if (options.epsilon <= 0) throw InvalidArgument(fmt::format("expected epsilon > 0; received {}", options.epsilon));
    if (options.momentum < 0 || options.momentum > 1) {
      throw InvalidArgument(fmt::format("expected 0 <= momentum <= 1; received {}", options.momentum));
    }
  }
  [[nodiscard]] std::string kind() const override { return "batch_norm"; }
  [[nodiscard]] std::int64_t batch_sums(const Shapes& in) const override { return 2 * channels(in); }
  [[nodiscard]] bool removes_shift() const override { return true; }
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
  /// The mean and variance of the batch; and the gradients by scale and shift summed over all ranks, when there are
  /// several.
  [[nodiscard]] Shapes workspace(const Shapes& in) const override { return Shapes(4, Shape{channels(in)}); }
  void prepare(const Shapes& in, DType) override { sums_.resize(static_cast<std::size_t>(3 * channels(in) + 1)); }

  void forward(Pass& pass) override {
    const bool training = pass.phase == Phase::train;
    rows_ = pass.placeholder ? 0 : pass.x[0].count() / pass.state[0].count();
    if (training && deterministic()) {
      exact_moments(pass);
      remember(pass);
    } else if (training) {
      if (rows_ > 0) kernel::column_moments(pass.x[0], pass.workspace[0], pass.workspace[1]);
      if (pass.parts != nullptr) join_moments(pass);
      remember(pass);
    }
    const std::vector<Tensor>& from = training ? pass.workspace : pass.state;
    kernel::normalise(pass.x[0], from[0], from[1], options_.epsilon, pass.parameter[0], pass.parameter[1], pass.y[0]);
  }
  void backward(Pass& pass) override {
    if (deterministic()) return exact_backward(pass);
    kernel::normalise_gradients(pass.x[0], pass.workspace[0], pass.workspace[1], options_.epsilon, pass.dy[0],
                                pass.gradient[0], pass.gradient[1]);
    if (pass.dx[0].empty()) return;
    std::vector<Tensor>& gradient = pass.gradient;
    const bool parts = pass.parts != nullptr;
    for (std::size_t i = 0; pass.placeholder && i < 2; ++i) gradient[i].fill(0);
    if (parts) join_gradients(pass);
    kernel::normalise_input_gradient(pass.x[0], pass.workspace[0], pass.workspace[1], options_.epsilon,
                                     pass.parameter[0], pass.dy[0], pass.dx[0], parts ? pass.workspace[2] : gradient[0],
                                     parts ? pass.workspace[3] : gradient[1], rows_);
  }

 private:
  static std::int64_t channels(const Shapes& in) { return in[0][in[0].rank() - 1]; }

  // Deterministic mode: the sums run over all ranks, so the gradients by scale and shift are those of the whole batch.
  void exact_moments(const Pass& pass) {
    const std::int64_t count = pass.state[0].count();
    kernel::ExactSums sums(count + 1);
    kernel::exact_columns(pass.x[0], sums);
    sums.add(count, static_cast<double>(rows_));
    if (pass.parts != nullptr) pass.parts->sum(sums.words());
    const double rows = sums.value(count);
    rows_ = std::llround(rows);
    put_means(sums, rows, pass.workspace[0]);
    sums.clear();
    kernel::exact_squares(pass.x[0], pass.workspace[0], sums);
    if (pass.parts != nullptr) pass.parts->sum(sums.words());
    put_means(sums, rows, pass.workspace[1]);
  }
  static void put_means(const kernel::ExactSums& sums, double rows, const Tensor& to) {
    kernel::by_type(to.dtype(), [&]<class T>(T) {
      for (std::int64_t c = 0; c < to.count(); ++c) kernel::data<T>(to)[c] = static_cast<T>(sums.value(c) / rows);
    });
  }
  void exact_backward(Pass& pass) const {
    const std::int64_t count = pass.state[0].count();
    kernel::ExactSums sums(2 * count);
    kernel::exact_norm_gradients(pass.x[0], pass.workspace[0], pass.workspace[1], options_.epsilon, pass.dy[0], sums);
    if (pass.parts != nullptr) pass.parts->sum(sums.words());
    sums.put(pass.gradient[0]);
    sums.put(pass.gradient[1], count);
    if (pass.dx[0].empty()) return;
    kernel::normalise_input_gradient(pass.x[0], pass.workspace[0], pass.workspace[1], options_.epsilon,
                                     pass.parameter[0], pass.dy[0], pass.dx[0], pass.gradient[0], pass.gradient[1],
                                     rows_);
  }
  /// Combines the moments of all ranks, weighted by their numbers of rows: the mean is the mean of their means, the
  /// variance is the mean of their variances plus the variance of their means. Uses double precision, because the
  /// square of the mean is subtracted.
  void join_moments(const Pass& pass) {
    const auto count = static_cast<std::size_t>(pass.state[0].count());
    const auto by = static_cast<double>(rows_);
    for (std::size_t c = 0; c < count; ++c) {
      const double mean = rows_ > 0 ? pass.workspace[0].at(static_cast<std::int64_t>(c)) : 0;
      sums_[c] = mean * by;
      sums_[count + c] = rows_ > 0 ? (pass.workspace[1].at(static_cast<std::int64_t>(c)) + mean * mean) * by : 0;
    }
    sums_[2 * count] = by;
    pass.parts->sum({sums_.data(), 2 * count + 1});
    const double all = sums_[2 * count];
    rows_ = std::llround(all);
    for (std::size_t c = 0; c < 2 * count; ++c) sums_[c] /= all;
    for (std::size_t c = 0; c < count; ++c) {
      sums_[2 * count + c] = std::max(0.0, sums_[count + c] - sums_[c] * sums_[c]);
    }
    put(pass.workspace[0], 0);
    put(pass.workspace[1], 2 * count);
  }
  void join_gradients(const Pass& pass) {
    const auto count = static_cast<std::size_t>(pass.state[0].count());
    for (std::size_t c = 0; c < count; ++c) {
      sums_[c] = pass.gradient[0].at(static_cast<std::int64_t>(c));
      sums_[count + c] = pass.gradient[1].at(static_cast<std::int64_t>(c));
    }
    pass.parts->sum({sums_.data(), 2 * count});
    put(pass.workspace[2], 0);
    put(pass.workspace[3], count);
  }
  void put(const Tensor& to, std::size_t first) const {
    kernel::by_type(to.dtype(), [&]<class T>(T) {
      std::ranges::transform(std::span(sums_).subspan(first, static_cast<std::size_t>(to.count())),
                             to.values<T>().begin(), [](double sum) { return static_cast<T>(sum); });
    });
  }
  /// Updates the running averages. The running variance is the unbiased estimate, with divisor n - 1.
  void remember(const Pass& pass) const {
    const auto n = static_cast<double>(rows_);
    kernel::blend(pass.state[0], pass.workspace[0], options_.momentum, 1);
    kernel::blend(pass.state[1], pass.workspace[1], options_.momentum, n > 1 ? n / (n - 1) : 1);
  }

  const BatchNormOptions options_;
  std::int64_t rows_ = 0;  // of the whole batch
  std::vector<double> sums_;
};

const Fields<BatchNormOptions>& batch_norm_fields() {
  using O = BatchNormOptions;
  static const Fields<O> all = [] {
    Fields<O> list = {field("epsilon", &O::epsilon, "added to the variance"),
                      field("momentum", &O::momentum, "weight of a new batch in the running averages")};
    add_param_fields(list, "scale", &O::scale_param);
    add_param_fields(list, "shift", &O::shift_param);
    return list;
  }();
  return all;
}

}  // namespace

LayerPtr batch_norm(const BatchNormOptions& options) {
  return with_options(std::make_unique<BatchNorm>(options), batch_norm_fields(), options);
}
LayerPtr batch_norm_from(const LayerFields& text) { return batch_norm(read_fields(batch_norm_fields(), text)); }

}  // namespace pleiad::nn

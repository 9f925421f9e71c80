// The losses. y[0] is the loss, a single value; each further output is a metric.
#include "kernel/elementwise.h"
#include "kernel/loss.h"
#include "nn/layer/check.h"
#include "nn/layer/fields.h"

namespace pleiad::nn {
namespace {

class Loss : public Layer, public ScoringLayer {
 public:
  [[nodiscard]] bool differentiable(std::size_t i) const override { return i == 0; }
  [[nodiscard]] bool takes_weights() const override { return true; }
  [[nodiscard]] Shapes outputs(const Shapes& in) const override {
    expect_inputs(in, 2);
    if (in[0].rank() < 1 || in[0].count() == 0) {
      throw InvalidArgument(fmt::format("expected (batch, ...); received {}", in[0].text()));
    }
    check_target(in);
    return Shapes(scores().size(), Shape{1});
  }

 protected:
  virtual void check_target(const Shapes& in) const {
    if (in[1].count() != in[0].count() || in[1][0] != in[0][0]) {
      throw InvalidArgument(fmt::format("expected targets of shape {}; received {}", in[0].text(), in[1].text()));
    }
  }
  /// Returns of(0, n), the loss of the batch summed over its n samples. If samples have weights, returns the sum of
  /// weight * of(i, i + 1) over the samples.
  template <class F>
  static double weighted(const Pass& pass, F&& of) {
    const std::int64_t count = pass.x[0].shape()[0];
    if (pass.weights.empty()) return of(0, count);
    double sum = 0;
    for (std::int64_t i = 0; i < count; ++i) sum += pass.weights.at(i) * of(i, i + 1);
    return sum;
  }
  /// Multiplies the gradient of each sample by its weight.
  static void weigh(const Pass& pass) {
    if (!pass.weights.empty()) kernel::weigh_rows(pass.dx[0], pass.weights);
  }
  static double batch(const Pass& pass) { return static_cast<double>(pass.x[0].shape()[0]); }
};

class SoftmaxLoss final : public Loss {
 public:
  explicit SoftmaxLoss(const SoftmaxLossOptions& options) : options_(options) {
    expect_at_least("top_k", options.top_k, 1);
  }
  [[nodiscard]] std::string kind() const override { return "softmax_loss"; }
  [[nodiscard]] std::vector<std::string> scores() const override { return {"loss", "accuracy"}; }
  [[nodiscard]] Shapes workspace(const Shapes& in) const override { return {in[0]}; }
  [[nodiscard]] DType input_type(std::size_t i, DType net) const override { return i == 1 ? DType::int32 : net; }
  void forward(Pass& pass) override {
    double accuracy = 0;
    double loss =
        kernel::softmax_loss(flat(pass, pass.x[0]), pass.x[1], flat(pass, pass.workspace[0]), options_.top_k, accuracy);
    if (!pass.weights.empty()) {
      const std::int64_t labels = pass.x[1].count() / pass.x[0].shape()[0];  // of a sample
      const Tensor label = pass.x[1].reshaped({pass.x[1].count()});
      loss = weighted(pass, [&](std::int64_t begin, std::int64_t end) {
        double unused = 0;
        const auto of = [&](const Tensor& t) { return kernel::rows_of(t, begin * labels, end * labels); };
        return kernel::softmax_loss(of(flat(pass, pass.x[0])), of(label), of(flat(pass, pass.workspace[0])),
                                    options_.top_k, unused);
      });
      loss /= batch(pass);
    }
    pass.y[0].fill(loss * options_.scale);
    pass.y[1].fill(accuracy);
  }
  void backward(Pass& pass) override {
    if (pass.dx[0].empty()) return;
    kernel::softmax_loss_backward(flat(pass, pass.workspace[0]), pass.x[1],
                                  options_.scale * pass.dy[0].at(0) / static_cast<double>(pass.x[1].count()),
                                  flat(pass, pass.dx[0]));
    weigh(pass);
  }

 protected:
  void check_target(const Shapes& in) const override {
    for (int axes = 1; axes < in[0].rank(); ++axes) {  // one label per sample, or one per position of it
      if (in[1].count() == in[0].count(0, axes) && in[1][0] == in[0][0]) return;
    }
    throw InvalidArgument(
        fmt::format("expected {} labels, one per sample, for scores of shape {}; received labels of shape {}", in[0][0],
                    in[0].text(), in[1].text()));
  }

 private:
  static Tensor flat(const Pass& pass, const Tensor& t) {
    return t.reshaped({pass.x[1].count(), t.count() / pass.x[1].count()});
  }
  const SoftmaxLossOptions options_;
};

class SigmoidLoss final : public Loss {
 public:
  [[nodiscard]] std::string kind() const override { return "sigmoid_loss"; }
  [[nodiscard]] bool sums_places() const override { return true; }
  [[nodiscard]] std::vector<std::string> scores() const override { return {"loss"}; }
  void forward(Pass& pass) override {
    const double sum = weighted(pass, [&](std::int64_t begin, std::int64_t end) {
      return kernel::sigmoid_loss(kernel::rows_of(pass.x[0], begin, end), kernel::rows_of(pass.x[1], begin, end));
    });
    pass.y[0].fill(sum / batch(pass));
  }
  void backward(Pass& pass) override {
    if (pass.dx[0].empty()) return;
    kernel::sigmoid_loss_backward(pass.x[0], pass.x[1], pass.dy[0].at(0) / batch(pass), pass.dx[0]);
    weigh(pass);
  }
};

class EuclideanLoss final : public Loss {
 public:
  [[nodiscard]] std::string kind() const override { return "euclidean_loss"; }
  [[nodiscard]] bool sums_places() const override { return true; }
  [[nodiscard]] std::vector<std::string> scores() const override { return {"loss", "se"}; }
  void forward(Pass& pass) override {
    const double se = kernel::squared_distance(pass.x[0], pass.x[1]) / batch(pass);
    const double of_loss =
        pass.weights.empty() ? se : weighted(pass, [&](std::int64_t begin, std::int64_t end) {
                                      return kernel::squared_distance(kernel::rows_of(pass.x[0], begin, end),
                                                                      kernel::rows_of(pass.x[1], begin, end));
                                    }) / batch(pass);
    pass.y[0].fill(of_loss / 2);
    pass.y[1].fill(se);
  }
  void backward(Pass& pass) override {
    if (pass.dx[0].empty()) return;
    kernel::difference(pass.x[0], pass.x[1], pass.dy[0].at(0) / batch(pass), pass.dx[0]);
    weigh(pass);
  }
};

class SumLoss final : public Loss {
 public:
  explicit SumLoss(const SumLossOptions& options) : scale_(options.scale) {}
  [[nodiscard]] std::string kind() const override { return "sum_loss"; }
  [[nodiscard]] bool sums_places() const override { return true; }
  [[nodiscard]] std::vector<std::string> scores() const override { return {"loss"}; }
  [[nodiscard]] Shapes outputs(const Shapes& in) const override {
    expect_inputs(in, 1);
    return {{1}};
  }
  void forward(Pass& pass) override {
    const double sum = weighted(pass, [&](std::int64_t begin, std::int64_t end) {
      return kernel::sum_of(kernel::rows_of(pass.x[0], begin, end));
    });
    pass.y[0].fill(scale_ * sum / batch(pass));
  }
  void backward(Pass& pass) override {
    if (pass.dx[0].empty()) return;
    pass.dx[0].fill(scale_ * pass.dy[0].at(0) / batch(pass));
    weigh(pass);
  }

 private:
  const double scale_;
};

const Fields<SumLossOptions>& sum_fields() {
  static const Fields<SumLossOptions> all = {field("scale", &SumLossOptions::scale, "factor of the sum")};
  return all;
}
const Fields<SoftmaxLossOptions>& softmax_loss_fields() {
  using O = SoftmaxLossOptions;
  static const Fields<O> all = {field("top_k", &O::top_k, "a label among this many largest scores counts as correct"),
                                field("scale", &O::scale, "factor of the loss")};
  return all;
}

}  // namespace

LayerPtr softmax_loss(const SoftmaxLossOptions& options) {
  return with_options(std::make_unique<SoftmaxLoss>(options), softmax_loss_fields(), options);
}
LayerPtr sum_loss(const SumLossOptions& options) {
  return with_options(std::make_unique<SumLoss>(options), sum_fields(), options);
}
LayerPtr sum_loss_from(const LayerFields& text) { return sum_loss(read_fields(sum_fields(), text)); }
LayerPtr sigmoid_loss() { return std::make_unique<SigmoidLoss>(); }
LayerPtr euclidean_loss() { return std::make_unique<EuclideanLoss>(); }
LayerPtr softmax_loss_from(const LayerFields& text) { return softmax_loss(read_fields(softmax_loss_fields(), text)); }
LayerPtr sigmoid_loss_from(const LayerFields& text) { return read_no_fields(text), sigmoid_loss(); }
LayerPtr euclidean_loss_from(const LayerFields& text) { return read_no_fields(text), euclidean_loss(); }

}  // namespace pleiad::nn

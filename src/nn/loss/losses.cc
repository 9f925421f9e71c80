// The losses. y[0] is the loss, a single number; each further output is a metric.
#include "kernel/loss.h"
#include "nn/layer/check.h"
#include "nn/layer/fields.h"

namespace pleiad::nn {
namespace {

class Loss : public Layer {
 public:
  [[nodiscard]] bool differentiable(std::size_t i) const override { return i == 0; }
  [[nodiscard]] Shapes outputs(const Shapes& in) const override {
    expect_inputs(in, 2);
    if (in[0].rank() < 1 || in[0].count() == 0) {
      throw InvalidArgument(fmt::format("expected (batch, ...); received {}", in[0].text()));
    }
    check_target(in);
    return Shapes(metrics().size(), Shape{1});
  }

 protected:
  virtual void check_target(const Shapes& in) const {
    if (in[1].count() != in[0].count() || in[1][0] != in[0][0]) {
      throw InvalidArgument(fmt::format("expected targets of shape {}; received {}", in[0].text(), in[1].text()));
    }
  }
  static double batch(const Pass& pass) { return static_cast<double>(pass.x[0].shape()[0]); }
};

class SoftmaxLoss final : public Loss {
 public:
  explicit SoftmaxLoss(const SoftmaxLossOptions& options) : options_(options) {
    expect_at_least("top_k", options.top_k, 1);
  }
  [[nodiscard]] std::string kind() const override { return "softmax_loss"; }
  [[nodiscard]] std::vector<std::string> metrics() const override { return {"loss", "accuracy"}; }
  [[nodiscard]] Shapes workspace(const Shapes& in) const override { return {in[0]}; }
  void prepare(const Shapes&, DType) override {}
  void forward(Pass& pass) override {
    if (pass.x[1].dtype() != DType::int32) {
      throw InvalidArgument(fmt::format("expected labels of int32; received {}", name_of(pass.x[1].dtype())));
    }
    double accuracy = 0;
    const double loss =
        kernel::softmax_loss(flat(pass.x[0]), pass.x[1], flat(pass.workspace[0]), options_.top_k, accuracy);
    pass.y[0].fill(loss * options_.scale);
    pass.y[1].fill(accuracy);
  }
  void backward(Pass& pass) override {
    if (pass.dx[0].empty()) return;
    kernel::softmax_loss_backward(flat(pass.workspace[0]), pass.x[1], options_.scale * pass.dy[0].at(0) / batch(pass),
                                  flat(pass.dx[0]));
  }

 protected:
  void check_target(const Shapes& in) const override {
    if (in[1].count() != in[0][0]) {
      throw InvalidArgument(
          fmt::format("expected {} labels, one a sample; received the shape {}", in[0][0], in[1].text()));
    }
  }

 private:
  static Tensor flat(const Tensor& t) { return t.reshaped({t.shape()[0], t.count() / t.shape()[0]}); }
  const SoftmaxLossOptions options_;
};

class SigmoidLoss final : public Loss {
 public:
  [[nodiscard]] std::string kind() const override { return "sigmoid_loss"; }
  [[nodiscard]] std::vector<std::string> metrics() const override { return {"loss"}; }
  void forward(Pass& pass) override { pass.y[0].fill(kernel::sigmoid_loss(pass.x[0], pass.x[1]) / batch(pass)); }
  void backward(Pass& pass) override {
    if (pass.dx[0].empty()) return;
    kernel::sigmoid_loss_backward(pass.x[0], pass.x[1], pass.dy[0].at(0) / batch(pass), pass.dx[0]);
  }
};

class EuclideanLoss final : public Loss {
 public:
  [[nodiscard]] std::string kind() const override { return "euclidean_loss"; }
  [[nodiscard]] std::vector<std::string> metrics() const override { return {"loss", "se"}; }
  void forward(Pass& pass) override {
    const double se = kernel::squared_distance(pass.x[0], pass.x[1]) / batch(pass);
    pass.y[0].fill(se / 2);
    pass.y[1].fill(se);
  }
  void backward(Pass& pass) override {
    if (pass.dx[0].empty()) return;
    kernel::difference(pass.x[0], pass.x[1], pass.dy[0].at(0) / batch(pass), pass.dx[0]);
  }
};

const Fields<SoftmaxLossOptions>& fields() {
  using O = SoftmaxLossOptions;
  static const Fields<O> all = {field("top_k", &O::top_k, "a label among so many scores counts as right"),
                                field("scale", &O::scale, "times the loss")};
  return all;
}

}  // namespace

LayerPtr softmax_loss(const SoftmaxLossOptions& options) {
  return remembering(std::make_unique<SoftmaxLoss>(options), fields(), options);
}
LayerPtr sigmoid_loss() { return std::make_unique<SigmoidLoss>(); }
LayerPtr euclidean_loss() { return std::make_unique<EuclideanLoss>(); }
LayerPtr softmax_loss_from(const LayerFields& text) { return softmax_loss(read_fields(fields(), text)); }
LayerPtr sigmoid_loss_from(const LayerFields& text) { return read_no_fields(text), sigmoid_loss(); }
LayerPtr euclidean_loss_from(const LayerFields& text) { return read_no_fields(text), euclidean_loss(); }

}  // namespace pleiad::nn

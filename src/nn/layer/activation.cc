#include "kernel/activation.h"

#include "core/text.h"
#include "kernel/loss.h"
#include "nn/layer/check.h"
#include "nn/layer/fields.h"

namespace pleiad::nn {
namespace {

/// Base of the activations: one input, and one output of the same shape.
class ActivationLayer : public Layer, public SpatialLayer {
 public:
  [[nodiscard]] Shapes outputs(const Shapes& in) const override {
    expect_inputs(in, 1);
    return in;
  }
};

class Elementwise final : public ActivationLayer {
 public:
  explicit Elementwise(const ActivationOptions& options)
      : name_(options.function),
        activation_{.function = kernel::function_named(options.function), .slope = options.slope} {
    if (activation_.function == kernel::Function::leaky && options.slope <= 0) {
      throw InvalidArgument(fmt::format("expected slope > 0; received {}", options.slope));
    }
  }
  [[nodiscard]] std::string kind() const override { return "activation"; }
  [[nodiscard]] std::string summary() const override { return name_; }
  void forward(Pass& pass) override { kernel::activate(activation_, pass.x[0], pass.y[0]); }
  void backward(Pass& pass) override {
    if (!pass.dx[0].empty()) kernel::activate_backward(activation_, pass.y[0], pass.dy[0], pass.dx[0]);
  }

 private:
  const std::string name_;
  const kernel::Activation activation_;
};

class Softmax final : public ActivationLayer {
 public:
  [[nodiscard]] std::string kind() const override { return "activation"; }
  [[nodiscard]] std::string summary() const override { return "softmax"; }
  void forward(Pass& pass) override { kernel::softmax(pass.x[0], pass.y[0]); }
  void backward(Pass& pass) override {
    if (!pass.dx[0].empty()) kernel::softmax_backward(pass.y[0], pass.dy[0], pass.dx[0]);
  }
};

const Fields<ActivationOptions>& activation_fields() {
  using O = ActivationOptions;
  static const Fields<O> all = {field("function", &O::function, "relu, sigmoid, ..., softmax"),
                                field("slope", &O::slope, "slope of leaky for x < 0")};
  return all;
}

}  // namespace

LayerPtr activation(const ActivationOptions& options) {
  if (options.function == "softmax") return with_options(std::make_unique<Softmax>(), activation_fields(), options);
  std::vector<std::string> known = kernel::function_names();
  known.emplace_back("softmax");
  if (std::ranges::find(known, options.function) == known.end()) {
    throw InvalidArgument(unknown_name("activation", options.function, known));
  }
  return with_options(std::make_unique<Elementwise>(options), activation_fields(), options);
}
LayerPtr activation_from(const LayerFields& text) { return activation(read_fields(activation_fields(), text)); }

}  // namespace pleiad::nn

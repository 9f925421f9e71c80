#include "kernel/dense.h"

#include "kernel/exact.h"

#include "nn/layer/check.h"
#include "nn/layer/fields.h"

namespace pleiad::nn {
namespace {

class Dense final : public Layer, public ProductLayer, public OutputSplitLayer, public ShiftLayer {
 public:
  explicit Dense(const DenseOptions& options)
      : options_(options), activation_{.function = kernel::function_named(options.activation)} {
    expect_at_least("out", options.out, 1);
    if (options.transposed && options.weight_param.norm != 0) {
      throw InvalidArgument("weight.norm is not supported for transposed weights, whose filters are not contiguous");
    }
  }

  [[nodiscard]] std::string kind() const override { return "dense"; }
  [[nodiscard]] Shapes outputs(const Shapes& in) const override {
    expect_inputs(in, 1);
    if (in[0].rank() < 2) throw InvalidArgument(fmt::format("expected (batch, features); received {}", in[0].text()));
    if (!options_.last_axis) return {{in[0][0], options_.out}};
    Shape out = in[0];
    out.set(out.rank() - 1, options_.out);
    return {out};
  }
  [[nodiscard]] std::vector<ParamSpec> parameters(const Shapes& in) const override {
    const std::int64_t width = width_of(in[0]);
    const Shape shape = options_.transposed ? Shape{width, options_.out} : Shape{options_.out, width};
    std::vector<ParamSpec> all = {{.name = "weight",
                                   .shape = shape,
                                   .wanted = options_.weight_param,
                                   .fan_in = width,
                                   .fan_out = options_.out,
                                   .pieces = true}};
    if (options_.bias) {
      all.push_back({.name = "bias",
                     .shape = {options_.out},
                     .wanted = options_.bias_param,
                     .fan_in = width,
                     .fan_out = options_.out});
    }
    return all;
  }
  [[nodiscard]] const DenseOptions& product() const override { return options_; }
  [[nodiscard]] std::string split_obstacle() const override {
    if (options_.last_axis) return "it works on each position";
    return param_obstacle({&options_.weight_param, &options_.bias_param});
  }
  [[nodiscard]] LayerPtr with_outputs(std::int64_t count) const override {
    DenseOptions o = options_;
    o.out = count;
    return dense(o);
  }
  [[nodiscard]] int output_axis(std::size_t parameter) const override {
    return parameter == 0 && options_.transposed ? 1 : 0;
  }
  [[nodiscard]] int shift_parameter() const override {
    return options_.bias && activation_.function == kernel::Function::linear ? 1 : -1;
  }
  [[nodiscard]] double products(const Shapes& in) const override {
    return static_cast<double>(in[0].count()) * static_cast<double>(options_.out);
  }
  [[nodiscard]] std::string summary() const override {
    return fmt::format("{}{}", options_.activation, options_.transposed ? ", transposed" : "");
  }

  void forward(Pass& pass) override {
    if (deterministic()) {
      return kernel::ordered_dense(geometry(pass), pass.x[0], pass.parameter[0],
                                   options_.bias ? pass.parameter[1] : none_, sums_, pass.y[0]);
    }
    kernel::dense_forward(geometry(pass), pass.x[0], pass.parameter[0], options_.bias ? pass.parameter[1] : none_,
                          pass.y[0]);
  }
  void backward(Pass& pass) override {
    const auto run = deterministic() ? kernel::ordered_dense_backward : kernel::dense_backward;
    run(geometry(pass), pass.x[0], pass.parameter[0], pass.y[0], pass.dy[0],
        {.dx = pass.dx[0],
         .weight_gradient = pass.gradient[0],
         .bias_gradient = options_.bias ? pass.gradient[1] : none_,
         .update = pass.update[0]});
  }

 private:
  [[nodiscard]] std::int64_t width_of(const Shape& in) const {
    return options_.last_axis ? in[in.rank() - 1] : in.count(1, in.rank());
  }
  [[nodiscard]] kernel::Dense geometry(const Pass& pass) const {
    const std::int64_t width = width_of(pass.x[0].shape());
    return {.batch = pass.x[0].count() / width,
            .in = width,
            .out = options_.out,
            .transposed = options_.transposed,
            .activation = activation_};
  }

  const DenseOptions options_;
  const kernel::Activation activation_;
  const Tensor none_;
  kernel::ExactSums sums_;  // used in deterministic mode
};

const Fields<DenseOptions>& dense_fields() {
  using O = DenseOptions;
  static const Fields<O> all = [] {
    Fields<O> list = {field("out", &O::out, "number of outputs"),
                      field("activation", &O::activation, "function applied to the result"),
                      field("bias", &O::bias, "whether to add a bias"),
                      field("transposed", &O::transposed, "store the weight as in x out"),
                      field("last_axis", &O::last_axis, "apply the layer to each position of the input")};
    add_param_fields(list, "weight", &O::weight_param);
    add_param_fields(list, "bias", &O::bias_param);
    return list;
  }();
  return all;
}

}  // namespace

LayerPtr dense(const DenseOptions& options) {
  return with_options(std::make_unique<Dense>(options), dense_fields(), options);
}
LayerPtr dense_from(const LayerFields& text) { return dense(read_fields(dense_fields(), text)); }

}  // namespace pleiad::nn

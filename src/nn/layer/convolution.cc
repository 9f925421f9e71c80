#include "kernel/conv.h"

#include "kernel/exact.h"

#include "nn/layer/check.h"
#include "nn/layer/fields.h"

namespace pleiad::nn {
namespace {

class Convolution final : public Layer,
                          public SpatialLayer,
                          public OutputSplitLayer,
                          public ShiftLayer,
                          public TwoStageLayer {
 public:
  explicit Convolution(const ConvolutionOptions& o)
      : o_(o),
        activation_{.function = kernel::function_named(o.activation)},
        h_{.size = o.kernel_h,
           .stride = o.stride_h,
           .pad_begin = o.pad_top,
           .pad_end = o.pad_bottom,
           .dilation = o.dilation_h},
        w_{.size = o.kernel_w,
           .stride = o.stride_w,
           .pad_begin = o.pad_left,
           .pad_end = o.pad_right,
           .dilation = o.dilation_w} {
    expect_at_least("filters", o.filters, 1);
    expect_at_least("groups", o.groups, 1);
    for (const SlidingWindow* window : {&h_, &w_}) {
      expect_at_least("kernel", window->size, 1);
      expect_at_least("stride", window->stride, 1);
      expect_at_least("dilation", window->dilation, 1);
      expect_at_least("pad", std::min(window->pad_begin, window->pad_end), 0);
    }
  }

  [[nodiscard]] std::string kind() const override { return "convolution"; }
  [[nodiscard]] Shapes outputs(const Shapes& in) const override {
    const Shape& x = expect_image(in);
    if (x[3] % o_.groups != 0 || o_.filters % o_.groups != 0) {
      throw InvalidArgument(
          fmt::format("the {} groups must divide the {} channels and the {} filters", o_.groups, x[3], o_.filters));
    }
    const Shape y = {x[0], h_.output(x[1]), w_.output(x[2]), o_.filters};
    if (y[1] < 1 || y[2] < 1) {
      throw InvalidArgument(fmt::format("the kernel covers {}x{} positions; padded images have only {}x{}", h_.reach(),
                                        w_.reach(), x[1] + h_.pad_begin + h_.pad_end,
                                        x[2] + w_.pad_begin + w_.pad_end));
    }
    return {y};
  }
  [[nodiscard]] std::vector<ParamSpec> parameters(const Shapes& in) const override {
    const Shape shape = {o_.filters, h_.size, w_.size, in[0][3] / o_.groups};
    const std::int64_t fan_in = shape.count(1, 4);
    std::vector<ParamSpec> all = {
        {.name = "weight", .shape = shape, .wanted = o_.weight_param, .fan_in = fan_in, .fan_out = o_.filters}};
    if (o_.bias) {
      all.push_back(
          {.name = "bias", .shape = {o_.filters}, .wanted = o_.bias_param, .fan_in = fan_in, .fan_out = o_.filters});
    }
    return all;
  }
  [[nodiscard]] Interval input_interval(Interval out, int axis) const override {
    return (axis == 1 ? h_ : w_).input(out);
  }
  [[nodiscard]] LayerPtr on_tile(const TilePlace& place) const override {
    ConvolutionOptions o = o_;
    const Padding h = padding_of(h_, place.out.h, place.in.h);
    const Padding w = padding_of(w_, place.out.w, place.in.w);
    o.pad_top = h.begin;
    o.pad_bottom = h.end;
    o.pad_left = w.begin;
    o.pad_right = w.end;
    return convolution(o);
  }
  [[nodiscard]] int shift_parameter() const override {
    return o_.bias && activation_.function == kernel::Function::linear ? 1 : -1;
  }
  [[nodiscard]] std::string split_obstacle() const override {
    return o_.groups == 1 ? param_obstacle({&o_.weight_param, &o_.bias_param}) : "it has groups of channels";
  }
  [[nodiscard]] LayerPtr with_outputs(std::int64_t count) const override {
    ConvolutionOptions o = o_;
    o.filters = count;
    return convolution(o);
  }
  [[nodiscard]] int output_axis(std::size_t) const override { return 0; }
  [[nodiscard]] double products(const Shapes& in) const override {
    return static_cast<double>(outputs(in)[0].count() * h_.size * w_.size) * static_cast<double>(in[0][3]) /
           static_cast<double>(o_.groups);
  }
  [[nodiscard]] std::string summary() const override {
    return fmt::format("{}x{}, {}", o_.kernel_h, o_.kernel_w, o_.activation);
  }

  void prepare(const Shapes& in, DType dtype) override {
    const Shape y = outputs(in)[0];
    conv_ = {.batch = y[0],
             .in_h = in[0][1],
             .in_w = in[0][2],
             .in_c = in[0][3],
             .out_h = y[1],
             .out_w = y[2],
             .out_c = y[3],
             .groups = o_.groups,
             .h = h_,
             .w = w_,
             .bias = o_.bias,
             .activation = activation_};
    plan_ = deterministic() ? kernel::plan_conv_by_loops(conv_, dtype) : kernel::plan_conv(conv_, dtype);
  }
  void forward(Pass& pass) override {
    plan_->forward(pass.x[0], pass.parameter[0], o_.bias ? pass.parameter[1] : none_, pass.y[0]);
  }
  void backward(Pass& pass) override {
    backward_inputs(pass);
    backward_parameters(pass);
  }
  void backward_inputs(Pass& pass) override {
    kernel::activation_gradient(activation_, pass.y[0], pass.dy[0], nullptr, o_.filters);
    if (!pass.dx[0].empty()) plan_->backward(pass.x[0], pass.parameter[0], pass.dy[0], pass.dx[0], none_, none_);
  }
  void backward_parameters(Pass& pass) override {
    if (pass.gradient[0].empty()) return;
    if (deterministic()) return exact_gradient(pass);
    plan_->backward(pass.x[0], pass.parameter[0], pass.dy[0], none_, pass.gradient[0],
                    o_.bias ? pass.gradient[1] : none_);
  }

 private:
  /// Computes the gradients summed over all ranks.
  void exact_gradient(Pass& pass) {
    const std::int64_t weights = pass.gradient[0].count();
    kernel::ExactSums sums(weights + (o_.bias ? o_.filters : 0));
    kernel::exact_conv_gradient(conv_, pass.x[0], pass.dy[0], sums);
    if (pass.parts != nullptr) pass.parts->sum(sums.words());
    sums.put(pass.gradient[0]);
    if (o_.bias) sums.put(pass.gradient[1], weights);
  }

  const ConvolutionOptions o_;
  const kernel::Activation activation_;
  const SlidingWindow h_;
  const SlidingWindow w_;
  const Tensor none_;
  kernel::Conv conv_;
  std::unique_ptr<kernel::ConvPlan> plan_;
};

const Fields<ConvolutionOptions>& convolution_fields() {
  using O = ConvolutionOptions;
  static const Fields<O> all = [] {
    Fields<O> list = {
        field("filters", &O::filters, "output channels"),
        alias_field("kernel", {&O::kernel_h, &O::kernel_w}, "for height and width"),
        alias_field("stride", {&O::stride_h, &O::stride_w}, "for height and width"),
        alias_field("pad", {&O::pad_top, &O::pad_bottom, &O::pad_left, &O::pad_right}, "for height and width"),
        alias_field("dilation", {&O::dilation_h, &O::dilation_w}, "for height and width"),
        field("kernel_h", &O::kernel_h, "height of the filters"),
        field("kernel_w", &O::kernel_w, "width of the filters"),
        field("stride_h", &O::stride_h, "rows from one window to the next"),
        field("stride_w", &O::stride_w, "columns from one window to the next"),
        field("pad_top", &O::pad_top, "rows of zeros above"),
        field("pad_bottom", &O::pad_bottom, "rows of zeros below"),
        field("pad_left", &O::pad_left, "columns of zeros to the left"),
        field("pad_right", &O::pad_right, "columns of zeros to the right"),
        field("dilation_h", &O::dilation_h, "rows from one tap to the next"),
        field("dilation_w", &O::dilation_w, "columns from one tap to the next"),
        field("groups", &O::groups, "groups of channels that do not mix"),
        field("activation", &O::activation, "function applied to the result"),
        field("bias", &O::bias, "whether to add a bias")};
    add_param_fields(list, "weight", &O::weight_param);
    add_param_fields(list, "bias", &O::bias_param);
    return list;
  }();
  return all;
}

}  // namespace

ConvolutionOptions square(std::int64_t filters, std::int64_t kernel, std::int64_t stride, std::int64_t pad) {
  return {.filters = filters,
          .kernel_h = kernel,
          .kernel_w = kernel,
          .stride_h = stride,
          .stride_w = stride,
          .pad_top = pad,
          .pad_bottom = pad,
          .pad_left = pad,
          .pad_right = pad};
}
LayerPtr convolution(const ConvolutionOptions& options) {
  return with_options(std::make_unique<Convolution>(options), convolution_fields(), options);
}
LayerPtr convolution_from(const LayerFields& text) { return convolution(read_fields(convolution_fields(), text)); }

}  // namespace pleiad::nn

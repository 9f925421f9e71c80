#include "kernel/conv.h"
#include "kernel/dense.h"
#include "kernel/exact.h"
#include "nn/layer/check.h"
#include "nn/layer/fields.h"

namespace pleiad::nn {
namespace {

class CrossMapPooling final : public Layer, public SpatialLayer {
 public:
  explicit CrossMapPooling(const CrossMapPoolingOptions& options) : options_(options) {
    expect_at_least("maps", options.maps, 1);
  }
  [[nodiscard]] std::string kind() const override { return "cross_map_pooling"; }
  [[nodiscard]] Shapes outputs(const Shapes& in) const override {
    Shape y = expect_image(in);
    y.set(3, options_.maps);
    return {y};
  }
  [[nodiscard]] std::vector<ParamSpec> parameters(const Shapes& in) const override {
    return {{.name = "weight",
             .shape = {options_.maps, in[0][3]},
             .wanted = options_.weight_param,
             .fan_in = in[0][3],
             .fan_out = options_.maps,
             .pieces = true}};
  }
  [[nodiscard]] double products(const Shapes& in) const override {
    return static_cast<double>(in[0].count() * options_.maps);
  }
  [[nodiscard]] std::string summary() const override { return fmt::format("{} maps", options_.maps); }
  void forward(Pass& pass) override {
    if (deterministic()) {
      kernel::ordered_dense(geometry(pass), pass.x[0], pass.parameter[0], none_, sums_, pass.y[0]);
      return;
    }
    kernel::dense_forward(geometry(pass), pass.x[0], pass.parameter[0], none_, pass.y[0]);
  }
  void backward(Pass& pass) override {
    if (deterministic()) {
      kernel::ordered_dense_backward(geometry(pass), pass.x[0], pass.parameter[0], pass.y[0], pass.dy[0],
                                     {.dx = pass.dx[0], .weight_gradient = none_, .bias_gradient = none_});
      if (!pass.gradient[0].empty()) exact_gradient(pass);
      return;
    }
    kernel::dense_backward(
        geometry(pass), pass.x[0], pass.parameter[0], pass.y[0], pass.dy[0],
        {.dx = pass.dx[0], .weight_gradient = pass.gradient[0], .bias_gradient = none_, .update = pass.update[0]});
  }

 private:
  [[nodiscard]] kernel::Dense geometry(const Pass& pass) const {
    const std::int64_t maps = pass.x[0].shape()[3];
    return {.batch = pass.x[0].count() / maps, .in = maps, .out = options_.maps, .activation = {}};
  }
  /// Computes the gradient summed over the positions of all ranks, as that of a convolution with 1x1 filters.
  static void exact_gradient(Pass& pass) {
    const Shape& in = pass.x[0].shape();
    const Shape& out = pass.y[0].shape();
    const kernel::Conv c{.batch = in[0],
                         .in_h = in[1],
                         .in_w = in[2],
                         .in_c = in[3],
                         .out_h = out[1],
                         .out_w = out[2],
                         .out_c = out[3],
                         .h = {},
                         .w = {},
                         .bias = false,
                         .activation = {}};
    kernel::ExactSums sums(pass.gradient[0].count());
    kernel::exact_conv_gradient(c, pass.x[0], pass.dy[0], sums);
    if (pass.parts != nullptr) pass.parts->sum(sums.words());
    sums.put(pass.gradient[0]);
  }

  const CrossMapPoolingOptions options_;
  const Tensor none_;
  kernel::ExactSums sums_;  // deterministic mode: exact sums of the outputs
};

const Fields<CrossMapPoolingOptions>& cross_map_fields() {
  using O = CrossMapPoolingOptions;
  static const Fields<O> all = [] {
    Fields<O> list = {field("maps", &O::maps, "output maps")};
    add_param_fields(list, "weight", &O::weight_param);
    return list;
  }();
  return all;
}

}  // namespace

LayerPtr cross_map_pooling(const CrossMapPoolingOptions& options) {
  return with_options(std::make_unique<CrossMapPooling>(options), cross_map_fields(), options);
}
LayerPtr cross_map_pooling_from(const LayerFields& text) {
  return cross_map_pooling(read_fields(cross_map_fields(), text));
}

}  // namespace pleiad::nn

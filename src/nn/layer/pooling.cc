#include "kernel/pool.h"

#include "core/text.h"
#include "nn/layer/check.h"
#include "nn/layer/fields.h"

namespace pleiad::nn {
namespace {

class Pooling final : public Layer, public SpatialLayer {
 public:
  explicit Pooling(const PoolingOptions& options) : options_(options) {
    expect_at_least("kernel", options.kernel, 1);
    expect_at_least("stride", options.stride, 1);
    expect_at_least("pad", options.pad, 0);
    expect_at_least("kernel_w", options.kernel_w, 0);
    expect_at_least("stride_w", options.stride_w, 0);
    expect_at_least("pad_w", options.pad_w, -1);
    const SlidingWindow h{
        .size = options.kernel, .stride = options.stride, .pad_begin = options.pad, .pad_end = options.pad};
    SlidingWindow w = h;
    if (options.kernel_w > 0) w.size = options.kernel_w;
    if (options.stride_w > 0) w.stride = options.stride_w;
    if (options.pad_w >= 0) w.pad_begin = w.pad_end = options.pad_w;
    pool_ = {.max = options.type == PoolingType::max,
             .l2 = options.type == PoolingType::l2,
             .h = h,
             .w = w,
             .count_padding = options.count_padding};
  }
  [[nodiscard]] std::string kind() const override { return "pooling"; }
  [[nodiscard]] Shapes outputs(const Shapes& in) const override {
    const Shape& x = expect_image(in);
    const Shape y = {x[0], pool_.h.output(x[1]), pool_.w.output(x[2]), x[3]};
    if (y[1] < 1 || y[2] < 1) {
      throw InvalidArgument(fmt::format("the {}x{} window is larger than the images padded by {}{}, of shape {}",
                                        pool_.h.size, pool_.w.size, options_.pad,
                                        options_.pad_w < 0 ? "" : fmt::format(" and {}", options_.pad_w), x.text()));
    }
    return {y};
  }
  [[nodiscard]] Interval input_interval(Interval out, int axis) const override {
    return (axis == 1 ? pool_.h : pool_.w).input(out);
  }
  [[nodiscard]] LayerPtr on_tile(const TilePlace& place) const override {
    auto part = std::make_unique<Pooling>(options_);
    const auto set = [](SlidingWindow& window, const Padding& padding) {
      window.pad_begin = padding.begin;
      window.pad_end = padding.end;
    };
    set(part->pool_.h, padding_of(pool_.h, place.out.h, place.in.h));
    set(part->pool_.w, padding_of(pool_.w, place.out.w, place.in.w));
    return part;
  }
  [[nodiscard]] std::string summary() const override {
    return fmt::format("{} {}x{}", options_.type.text(), pool_.h.size, pool_.w.size);
  }
  void forward(Pass& pass) override { kernel::pool_forward(pool_, pass.x[0], pass.y[0]); }
  void backward(Pass& pass) override {
    if (!pass.dx[0].empty()) kernel::pool_backward(pool_, pass.x[0], pass.y[0], pass.dy[0], pass.dx[0]);
  }

 private:
  const PoolingOptions options_;
  kernel::Pool pool_;
};

const Fields<PoolingOptions>& pooling_fields() {
  using O = PoolingOptions;
  static const Fields<O> all = {field("type", &O::type, "max, average or l2"),
                                field("kernel", &O::kernel, "side of the window"),
                                field("stride", &O::stride, "distance between windows"),
                                field("pad", &O::pad, "on each side"),
                                field("count_padding", &O::count_padding, "whether the average counts padding"),
                                field("kernel_w", &O::kernel_w, "width of the window; 0 uses kernel"),
                                field("stride_w", &O::stride_w, "stride along the width; 0 uses stride"),
                                field("pad_w", &O::pad_w, "padding left and right; -1 uses pad")};
  return all;
}

}  // namespace

LayerPtr pooling(const PoolingOptions& options) {
  return with_options(std::make_unique<Pooling>(options), pooling_fields(), options);
}
LayerPtr pooling_from(const LayerFields& text) { return pooling(read_fields(pooling_fields(), text)); }

}  // namespace pleiad::nn

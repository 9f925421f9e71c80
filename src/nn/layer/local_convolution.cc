#include "core/threads.h"
#include "kernel/activation.h"
#include "kernel/local_conv.h"
#include "nn/layer/check.h"
#include "nn/layer/fields.h"

namespace pleiad::nn {
namespace {

class LocalConvolution final : public Layer, public SpatialLayer, public SpreadingLayer {
 public:
  explicit LocalConvolution(const LocalConvolutionOptions& o)
      : o_(o),
        activation_{.function = kernel::function_named(o.activation)},
        h_{.size = o.kernel_h, .stride = o.stride_h, .pad_begin = o.pad_h, .pad_end = o.pad_h},
        w_{.size = o.kernel_w, .stride = o.stride_w, .pad_begin = o.pad_w, .pad_end = o.pad_w} {
    expect_at_least("filters", o.filters, 1);
    for (const SlidingWindow* window : {&h_, &w_}) {
      expect_at_least("kernel", window->size, 1);
      expect_at_least("stride", window->stride, 1);
      expect_at_least("pad", window->pad_begin, 0);
    }
    if (!o.transposed && (o.height != 0 || o.width != 0)) {
      throw InvalidArgument("height and width may be set only for a transposed layer");
    }
  }

  [[nodiscard]] std::string kind() const override { return "local_convolution"; }
  [[nodiscard]] Capabilities capabilities() const override {
    Capabilities has = Layer::capabilities();
    if (o_.transposed) has.spatial = nullptr;
    if (!spreads()) has.spreading = nullptr;
    return has;
  }
  [[nodiscard]] Shapes outputs(const Shapes& in) const override {
    const kernel::LocalConv c = geometry(expect_image(in));
    return {o_.transposed ? Shape{c.batch, c.in_h, c.in_w, c.channels} : Shape{c.batch, c.out_h, c.out_w, c.maps}};
  }
  [[nodiscard]] std::vector<ParamSpec> parameters(const Shapes& in) const override {
    const kernel::LocalConv c = geometry(in[0]);
    std::vector<ParamSpec> all = {{.name = "weight",
                                   .shape = {c.out_h, c.out_w, c.maps, h_.size, w_.size, c.channels},
                                   .wanted = o_.weight_param,
                                   .fan_in = c.filter(),
                                   .fan_out = c.maps,
                                   .pieces = true}};
    if (o_.bias) all.push_back({.name = "bias", .shape = outputs(in)[0].sample(), .wanted = o_.bias_param});
    return all;
  }
  [[nodiscard]] Interval input_interval(Interval out, int axis) const override {
    return (axis == 1 ? h_ : w_).input(out);
  }
  [[nodiscard]] Interval output_interval(Interval in, int axis) const override { return input_interval(in, axis); }
  [[nodiscard]] bool of_places(std::size_t) const override { return !o_.transposed || spreads(); }
  [[nodiscard]] LayerPtr on_tile(const TilePlace& place) const override {
    if (o_.transposed) return spreads() ? transposed_on(place) : nullptr;
    auto part = std::make_unique<LocalConvolution>(o_);
    part->pad_as(*this, place.out, place.in);
    return part;
  }
  [[nodiscard]] double products(const Shapes& in) const override {
    const kernel::LocalConv c = geometry(in[0]);
    return static_cast<double>(c.batch * c.out_h * c.out_w) * static_cast<double>(c.maps * c.filter());
  }
  [[nodiscard]] std::string summary() const override {
    return fmt::format("{}x{}{}, {}", h_.size, w_.size, o_.transposed ? " transposed" : "", o_.activation);
  }

  void forward(Pass& pass) override {
    const OneThread only(deterministic());
    const kernel::LocalConv c = geometry(pass.x[0].shape());
    if (o_.transposed) {
      kernel::local_transposed(c, pass.x[0], pass.parameter[0], pass.y[0], none_, {}, memory_);
    } else {
      kernel::local_apply(c, pass.x[0], pass.parameter[0], pass.y[0], memory_);
    }
    if (!o_.bias && activation_.function == kernel::Function::linear) return;
    const std::int64_t columns = pass.y[0].count() / c.batch;
    parallel_for(columns, std::max<std::int64_t>(16, 32768 / c.batch), [&](std::int64_t first, std::int64_t last) {
      kernel::activate_columns(pass.y[0].dtype(), activation_, pass.y[0].raw(),
                               o_.bias ? pass.parameter[1].raw() : nullptr, c.batch, columns, first, last);
    });
  }
  void backward(Pass& pass) override {
    const OneThread only(deterministic());
    const kernel::LocalConv c = geometry(pass.x[0].shape());
    kernel::activation_gradient(activation_, pass.y[0], pass.dy[0], o_.bias ? pass.gradient[1].raw() : nullptr,
                                pass.y[0].count() / c.batch);
    const kernel::LocalGradient to{.weight_gradient = pass.gradient[0], .update = pass.update[0]};
    if (o_.transposed) {
      if (!pass.dx[0].empty()) kernel::local_apply(c, pass.dy[0], pass.parameter[0], pass.dx[0], memory_);
      kernel::local_transposed(c, pass.x[0], pass.parameter[0], none_, pass.dy[0], to, memory_);
    } else {
      kernel::local_transposed(c, pass.dy[0], pass.parameter[0], pass.dx[0], pass.x[0], to, memory_);
    }
  }

 private:
  /// A transposed layer spreads: each input position adds to the output positions that its filter covers.
  [[nodiscard]] bool spreads() const {
    return o_.transposed && !o_.bias && activation_.function == kernel::Function::linear;
  }
  /// Returns the layer that computes, from maps at the positions `in`, all image positions `out` that they reach.
  [[nodiscard]] LayerPtr transposed_on(const TilePlace& place) const {
    LocalConvolutionOptions o = o_;
    o.height = place.out.h.size();
    o.width = place.out.w.size();
    auto part = std::make_unique<LocalConvolution>(o);
    part->pad_as(*this, place.in, place.out);
    return part;
  }
  /// Sets the padding that `whole` has at these positions of maps and images.
  void pad_as(const LocalConvolution& whole, const Rect& maps, const Rect& images) {
    const Padding h = padding_of(whole.h_, maps.h, images.h);
    const Padding w = padding_of(whole.w_, maps.w, images.w);
    h_.pad_begin = h.begin;
    h_.pad_end = h.end;
    w_.pad_begin = w.begin;
    w_.pad_end = w.end;
  }
  /// Limits the computation to one thread in deterministic mode: several threads would change the order of summation.
  class OneThread {
   public:
    explicit OneThread(bool only) : before_(only ? compute_threads() : 0) {
      if (only) set_compute_threads(1);
    }
    ~OneThread() {
      if (before_ > 0) set_compute_threads(before_);
    }
    OneThread(const OneThread&) = delete;
    OneThread& operator=(const OneThread&) = delete;

   private:
    const int before_;
  };

  /// `in` is the shape of the image; for a transposed layer, of the maps.
  [[nodiscard]] kernel::LocalConv geometry(const Shape& in) const {
    if (!o_.transposed) {
      const std::int64_t out_h = h_.output(in[1]);
      const std::int64_t out_w = w_.output(in[2]);
      if (out_h < 1 || out_w < 1) {
        throw InvalidArgument(fmt::format("the {}x{} kernel is larger than the images padded by {} and {}, of shape {}",
                                          h_.size, w_.size, o_.pad_h, o_.pad_w, in.text()));
      }
      return {in[0], in[1], in[2], in[3], out_h, out_w, o_.filters, h_, w_};
    }
    const auto length = [](const char* name, std::int64_t given, std::int64_t out, const SlidingWindow& window) {
      const std::int64_t least = (out - 1) * window.stride + window.size - window.pad_begin - window.pad_end;
      const std::int64_t chosen = given == 0 ? least : given;
      if (chosen < 1 || window.output(chosen) != out) {
        throw InvalidArgument(fmt::format("{}: maps of {} positions come from images of {} to {}; received {}", name,
                                          out, least, least + window.stride - 1, chosen));
      }
      return chosen;
    };
    return {in[0],
            length("height", o_.height, in[1], h_),
            length("width", o_.width, in[2], w_),
            o_.filters,
            in[1],
            in[2],
            in[3],
            h_,
            w_};
  }

  const LocalConvolutionOptions o_;
  const kernel::Activation activation_;
  SlidingWindow h_;
  SlidingWindow w_;
  const Tensor none_;
  kernel::LocalConvMemory memory_;
};

const Fields<LocalConvolutionOptions>& local_convolution_fields() {
  using O = LocalConvolutionOptions;
  static const Fields<O> all = [] {
    Fields<O> list = {field("filters", &O::filters, "output channels"),
                      alias_field("kernel", {&O::kernel_h, &O::kernel_w}, "for height and width"),
                      alias_field("stride", {&O::stride_h, &O::stride_w}, "for height and width"),
                      alias_field("pad", {&O::pad_h, &O::pad_w}, "for height and width"),
                      field("kernel_h", &O::kernel_h, "height of the filters"),
                      field("kernel_w", &O::kernel_w, "width of the filters"),
                      field("stride_h", &O::stride_h, "rows from one window to the next"),
                      field("stride_w", &O::stride_w, "columns from one window to the next"),
                      field("pad_h", &O::pad_h, "rows of zeros above and below"),
                      field("pad_w", &O::pad_w, "columns of zeros to the left and right"),
                      field("activation", &O::activation, "function applied to the result"),
                      field("bias", &O::bias, "whether to add a bias for each position"),
                      field("transposed", &O::transposed, "compute images from maps"),
                      field("height", &O::height, "image size of a transposed layer"),
                      field("width", &O::width, "image size of a transposed layer")};
    add_param_fields(list, "weight", &O::weight_param);
    add_param_fields(list, "bias", &O::bias_param);
    return list;
  }();
  return all;
}

}  // namespace

LayerPtr local_convolution(const LocalConvolutionOptions& options) {
  return with_options(std::make_unique<LocalConvolution>(options), local_convolution_fields(), options);
}
LayerPtr local_convolution_from(const LayerFields& text) {
  return local_convolution(read_fields(local_convolution_fields(), text));
}

}  // namespace pleiad::nn

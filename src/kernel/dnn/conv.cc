// Convolution with oneDNN 2.6: channels-last images, and weights in the layout that oneDNN prefers for each pass.
#include <oneapi/dnnl/dnnl.hpp>

#include <optional>

#include "core/threads.h"
#include "kernel/conv.h"
#include "pleiad/error.h"

namespace pleiad::kernel {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

const dnnl::engine& engine() {
  shorten_spinning();
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

memory::desc image(std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c) {
  return {{n, c, h, w}, memory::data_type::f32, Tag::nhwc};
}

struct Argument {
  int kind;
  const memory& value;
};

/// Uses the C interface, because the C++ one allocates a map and a list in each call, and a step of ours must not
/// allocate.
template <std::size_t kCount>
void execute(const dnnl::primitive& primitive, const dnnl::stream& stream, const Argument (&arguments)[kCount]) {
  dnnl_exec_arg_t list[kCount];
  for (std::size_t i = 0; i < kCount; ++i) list[i] = {arguments[i].kind, arguments[i].value.get()};
  dnnl::error::wrap_c_api(dnnl_primitive_execute(primitive.get(), stream.get(), static_cast<int>(kCount), list),
                          "a primitive could not be executed");
}

/// Adapts one of our tensors to the layout that a oneDNN primitive needs: in place if the layouts are equal, else with
/// a reorder.
class LayoutAdapter {
 public:
  LayoutAdapter(const memory::desc& ours, const memory::desc& theirs, bool out)
      : ours_(ours, engine(), nullptr), same_(ours == theirs) {
    if (same_) return;
    theirs_ = memory(theirs, engine());
    reorder_ = out ? dnnl::reorder(*theirs_, ours_) : dnnl::reorder(ours_, *theirs_);
  }
  memory& bind(const Tensor& tensor) {
    ours_.set_data_handle(tensor.raw());
    return same_ ? ours_ : *theirs_;
  }
  void fetch(dnnl::stream& stream) {
    if (!same_) execute(*reorder_, stream, {{DNNL_ARG_FROM, ours_}, {DNNL_ARG_TO, *theirs_}});
  }
  void give(dnnl::stream& stream) {
    if (!same_) execute(*reorder_, stream, {{DNNL_ARG_FROM, *theirs_}, {DNNL_ARG_TO, ours_}});
  }

 private:
  memory ours_;
  bool same_;
  std::optional<memory> theirs_;
  std::optional<dnnl::reorder> reorder_;
};

class DnnConvPlan final : public ConvPlan {
 public:
  explicit DnnConvPlan(const Conv& c) : c_(c), stream_(engine()), forward_pd_(make_forward()), forward_(forward_pd_) {
    weight_.emplace(weight_desc_, forward_pd_.weights_desc(), false);
    x_ = memory(x_desc(), engine(), nullptr);
    y_ = memory(y_desc(), engine(), nullptr);
    bias_ = memory(bias_desc(), engine(), nullptr);
    dx_ = memory(x_desc(), engine(), nullptr);
    bias_gradient_ = memory(bias_desc(), engine(), nullptr);
  }

  void forward(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y) override {
    x_.set_data_handle(x.raw());
    y_.set_data_handle(y.raw());
    bias_.set_data_handle(bias.raw());
    memory& w = weight_->bind(weight);
    weight_->fetch(stream_);
    if (c_.bias) {
      execute(forward_, stream_,
              {{DNNL_ARG_SRC, x_}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_BIAS, bias_}, {DNNL_ARG_DST, y_}});
    } else {
      execute(forward_, stream_, {{DNNL_ARG_SRC, x_}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, y_}});
    }
    stream_.wait();
    if (!fused()) activate(c_.activation, y, y);
  }

  void backward(const Tensor& x, const Tensor& weight, const Tensor& dy, const Tensor& dx,
                const Tensor& weight_gradient, const Tensor& bias_gradient) override {
    y_.set_data_handle(dy.raw());
    if (!dx.empty()) {
      if (!backward_data_) make_backward_data();
      dx_.set_data_handle(dx.raw());
      memory& w = weight_for_data_->bind(weight);
      weight_for_data_->fetch(stream_);
      execute(*backward_data_, stream_, {{DNNL_ARG_DIFF_DST, y_}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DIFF_SRC, dx_}});
    }
    if (!weight_gradient.empty()) {
      if (!backward_weights_) make_backward_weights();
      x_.set_data_handle(x.raw());
      bias_gradient_.set_data_handle(bias_gradient.raw());
      memory& w = weight_gradient_->bind(weight_gradient);
      if (c_.bias) {
        execute(*backward_weights_, stream_,
                {{DNNL_ARG_SRC, x_},
                 {DNNL_ARG_DIFF_DST, y_},
                 {DNNL_ARG_DIFF_WEIGHTS, w},
                 {DNNL_ARG_DIFF_BIAS, bias_gradient_}});
      } else {
        execute(*backward_weights_, stream_, {{DNNL_ARG_SRC, x_}, {DNNL_ARG_DIFF_DST, y_}, {DNNL_ARG_DIFF_WEIGHTS, w}});
      }
      weight_gradient_->give(stream_);
    }
    stream_.wait();
  }

 private:
  [[nodiscard]] memory::desc x_desc() const { return image(c_.batch, c_.in_h, c_.in_w, c_.in_c); }
  [[nodiscard]] memory::desc y_desc() const { return image(c_.batch, c_.out_h, c_.out_w, c_.out_c); }
  [[nodiscard]] memory::desc bias_desc() const { return {{c_.out_c}, memory::data_type::f32, Tag::x}; }
  [[nodiscard]] memory::desc weights(bool any) const {
    const std::int64_t in = c_.in_c / c_.groups;
    if (c_.groups == 1) {
      return {{c_.out_c, in, c_.h.size, c_.w.size}, memory::data_type::f32, any ? Tag::any : Tag::ohwi};
    }
    return {{c_.groups, c_.out_c / c_.groups, in, c_.h.size, c_.w.size},
            memory::data_type::f32,
            any ? Tag::any : Tag::gohwi};
  }
  [[nodiscard]] memory::dims strides() const { return {c_.h.stride, c_.w.stride}; }
  [[nodiscard]] memory::dims dilations() const { return {c_.h.dilation - 1, c_.w.dilation - 1}; }
  [[nodiscard]] memory::dims before() const { return {c_.h.pad_begin, c_.w.pad_begin}; }
  /// Returns the padding after the image, without the elements that are left over after the last window.
  [[nodiscard]] memory::dims after() const {
    const auto used = [](const SlidingWindow& w, std::int64_t in, std::int64_t out) {
      return (out - 1) * w.stride + w.reach() - in - w.pad_begin;
    };
    return {used(c_.h, c_.in_h, c_.out_h), used(c_.w, c_.in_w, c_.out_w)};
  }
  [[nodiscard]] bool fused() const {
    return c_.activation.function == Function::relu || c_.activation.function == Function::linear;
  }

  dnnl::convolution_forward::primitive_desc make_forward() {
    dnnl::primitive_attr attributes;
    if (c_.activation.function == Function::relu) {
      dnnl::post_ops ops;
      ops.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
      attributes.set_post_ops(ops);
    }
    using Desc = dnnl::convolution_forward::desc;
    constexpr auto kKind = dnnl::prop_kind::forward_training;
    constexpr auto kDirect = dnnl::algorithm::convolution_direct;
    const Desc desc =
        c_.bias ? Desc(kKind, kDirect, x_desc(), weights(true), bias_desc(), y_desc(), strides(), dilations(), before(),
                       after())
                : Desc(kKind, kDirect, x_desc(), weights(true), y_desc(), strides(), dilations(), before(), after());
    return {desc, attributes, engine()};
  }
  void make_backward_data() {
    const dnnl::convolution_backward_data::desc desc(dnnl::algorithm::convolution_direct, x_desc(), weights(true),
                                                     y_desc(), strides(), dilations(), before(), after());
    const dnnl::convolution_backward_data::primitive_desc pd(desc, engine(), forward_pd_);
    weight_for_data_.emplace(weight_desc_, pd.weights_desc(), false);
    backward_data_.emplace(pd);
  }
  void make_backward_weights() {
    using Desc = dnnl::convolution_backward_weights::desc;
    constexpr auto kDirect = dnnl::algorithm::convolution_direct;
    const Desc desc =
        c_.bias
            ? Desc(kDirect, x_desc(), weights(true), bias_desc(), y_desc(), strides(), dilations(), before(), after())
            : Desc(kDirect, x_desc(), weights(true), y_desc(), strides(), dilations(), before(), after());
    const dnnl::convolution_backward_weights::primitive_desc pd(desc, engine(), forward_pd_);
    weight_gradient_.emplace(weight_desc_, pd.diff_weights_desc(), true);
    backward_weights_.emplace(pd);
  }

  const Conv c_;
  const memory::desc weight_desc_ = weights(false);
  dnnl::stream stream_;
  dnnl::convolution_forward::primitive_desc forward_pd_;
  dnnl::convolution_forward forward_;
  std::optional<dnnl::convolution_backward_data> backward_data_;        // made when first needed
  std::optional<dnnl::convolution_backward_weights> backward_weights_;  // made when first needed
  std::optional<LayoutAdapter> weight_, weight_for_data_, weight_gradient_;
  memory x_, y_, bias_, dx_, bias_gradient_;
};

}  // namespace

std::unique_ptr<ConvPlan> plan_conv_by_dnn(const Conv& conv) {
  try {
    return std::make_unique<DnnConvPlan>(conv);
  } catch (const dnnl::error& problem) {
    throw InternalError(std::string("oneDNN: ") + problem.what());
  }
}

}  // namespace pleiad::kernel

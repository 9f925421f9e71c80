#include "nn/layer/cropped.h"

#include "core/kernels.h"
#include "nn/layer_proxy.h"

namespace pleiad::nn {
namespace {

class Cropped final : public LayerProxy {
 public:
  Cropped(LayerPtr same, const TilePlace& place) : LayerProxy(std::move(same)), region_(place) {}
  [[nodiscard]] Shapes outputs(const Shapes& in) const override {
    return {{in[0][0], region_.out.h.size(), region_.out.w.size(), in[0][3]}};
  }
  /// The workspace of the wrapped layer, followed by the uncropped output.
  [[nodiscard]] Shapes workspace(const Shapes& in) const override {
    Shapes all = whole_->workspace(in);
    all.push_back(in[0]);
    return all;
  }
  void prepare(const Shapes& in, DType dtype) override {
    whole_->set_deterministic(deterministic());
    whole_->prepare(in, dtype);
  }

  void forward(Pass& pass) override {
    const Tensor wide = pass.workspace.back();
    const Tensor y = pass.y[0];
    pass.y[0] = wide;
    whole_->forward(pass);
    pass.y[0] = y;
    copy(wide, y, true);
  }
  void backward(Pass& pass) override {
    if (pass.dx[0].empty()) return;
    if (wide_gradient_.empty() || wide_gradient_.shape() != pass.x[0].shape()) {
      wide_gradient_ = Tensor(pass.x[0].dtype(), pass.x[0].shape());
    }
    wide_gradient_.fill(0);
    copy(wide_gradient_, pass.dy[0], false);
    const Tensor y = pass.y[0];
    const Tensor dy = pass.dy[0];
    pass.y[0] = pass.workspace.back();
    pass.dy[0] = wide_gradient_;
    whole_->backward(pass);
    pass.y[0] = y;
    pass.dy[0] = dy;
  }

 private:
  void copy(const Tensor& wide, const Tensor& inner, bool out) const {
    const Rect& in = region_.in;
    const auto place = static_cast<std::size_t>(wide.shape()[3]) * size_of(wide.dtype());
    const std::size_t length = static_cast<std::size_t>(region_.out.w.size()) * place;
    auto* at = static_cast<std::byte*>(inner.raw());
    for (std::int64_t n = 0; n < wide.shape()[0]; ++n) {
      for (std::int64_t h = region_.out.h.begin; h < region_.out.h.end; ++h, at += length) {
        const std::int64_t row = (n * in.h.size() + h - in.h.begin) * in.w.size() + region_.out.w.begin - in.w.begin;
        auto* const there = static_cast<std::byte*>(wide.raw()) + static_cast<std::size_t>(row) * place;
        out ? copy_bytes(at, there, length) : copy_bytes(there, at, length);
      }
    }
  }

  const TilePlace region_;
  Tensor wide_gradient_;
};

}  // namespace

LayerPtr cropped(LayerPtr same, const TilePlace& place) { return std::make_unique<Cropped>(std::move(same), place); }

}  // namespace pleiad::nn

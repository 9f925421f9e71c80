#include "plan/loss_layer.h"

#include "nn/layer_proxy.h"

namespace pleiad {
namespace {

class LossOnTiles final : public nn::LayerProxy {
 public:
  LossOnTiles(nn::LayerPtr whole, int tiles) : nn::LayerProxy(std::move(whole)), tiles_(tiles) {}
  [[nodiscard]] nn::Shapes outputs(const nn::Shapes& in) const override {
    return in[0].count() == 0 ? nn::Shapes(nn::scores_of(*whole_).size(), Shape{1}) : whole_->outputs(in);
  }
  [[nodiscard]] nn::Shapes workspace(const nn::Shapes& in) const override {
    return in[0].count() == 0 ? nn::Shapes{} : whole_->workspace(in);
  }
  void prepare(const nn::Shapes& in, DType dtype) override {
    if (in[0].count() > 0) whole_->prepare(in, dtype);
  }
  void forward(nn::Pass& pass) override {
    const bool empty = pass.x[0].count() == 0;
    if (!empty) whole_->forward(pass);
    for (const Tensor& y : pass.y) y.fill(empty ? 0 : y.at(0) * tiles_);
  }
  void backward(nn::Pass& pass) override {
    if (pass.x[0].count() == 0) return;
    pass.dy[0].fill(pass.dy[0].at(0) * tiles_);
    whole_->backward(pass);
  }

 private:
  const double tiles_;
};

}  // namespace

nn::LayerPtr loss_layer(nn::LayerPtr whole, const Plan& of) {
  return std::make_unique<LossOnTiles>(std::move(whole), of.grid.tiles());
}

}  // namespace pleiad

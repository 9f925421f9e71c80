#include "plan/tower_layer.h"

#include <algorithm>

#include "core/kernels.h"
#include "kernel/dense.h"
#include "kernel/elementwise.h"
#include "kernel/exact.h"
#include "kernel/types.h"
#include "nn/layer_proxy.h"
#include "pleiad/nn/layers.h"
#include "pleiad/spatial.h"

namespace pleiad {
namespace {

/// Computes to = factor * from.
void scale(const Tensor& to, const Tensor& from, double factor) {
  kernel::by_type(to.dtype(), [&]<class T>(T) {
    const T by = static_cast<T>(factor);
    std::ranges::transform(from.values<T>(), to.values<T>().begin(), [&](T value) { return value * by; });
  });
}

/// Base of the layers over gathered or summed tiles; it reports the properties of the whole layer. Gradients that every
/// rank of a group computes alike are scaled by 1 / ranks, so that their sum over all ranks is correct; gradients of
/// tiles are scaled by 1 / groups.
class GatheredLayer : public nn::LayerProxy {
 public:
  GatheredLayer(nn::LayerPtr whole, const LayerPlan& plan, ImageTiles tiles, const Plan& of,
                std::shared_ptr<Communicator> comm)
      : nn::LayerProxy(std::move(whole)),
        name_(plan.name),
        tiled_(plan.tiled),
        tiles_(std::move(tiles)),
        grid_(of.grid),
        comm_(std::move(comm)),
        tile_(static_cast<std::size_t>(of.grid.tile_of(comm_->rank()))),
        share_(of.deterministic ? 1 : of.grid.tiles()) {}
  [[nodiscard]] nn::Shapes outputs(const nn::Shapes& in) const override { return whole_->outputs(full_shapes(in)); }

 protected:
  [[nodiscard]] nn::Shapes full_shapes(const nn::Shapes& in) const override {
    nn::Shapes all = in;
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (!tiled_[i]) continue;
      all[i] = in[i].rank() == 2 ? Shape{in[i][0], tiles_.in_h * tiles_.in_w * tiles_.in_c}
                                 : Shape{in[i][0], tiles_.in_h, tiles_.in_w, in[i][3]};
    }
    return all;
  }
  [[nodiscard]] const Rect& own() const { return tiles_.own[tile_]; }

  const std::string name_;
  const std::vector<bool> tiled_;  // for each input: whether it is split into tiles
  const ImageTiles tiles_;
  const Grid grid_;
  const std::shared_ptr<Communicator> comm_;
  const std::size_t tile_;
  const double share_;  // converts gradients that all ranks of a group compute to the scale of tile gradients
};

class TowerLayer final : public GatheredLayer {
 public:
  TowerLayer(nn::LayerPtr whole, const LayerPlan& plan, const TowerWork& work, const Plan& of,
             std::shared_ptr<Communicator> comm)
      : GatheredLayer(std::move(whole), plan, work, of, std::move(comm)),
        activation_{.function = kernel::function_named(product().activation)},
        transposed_(product().transposed),
        bias_(product().bias) {}

  [[nodiscard]] std::vector<nn::ParamSpec> parameters(const nn::Shapes& in) const override {
    std::vector<nn::ParamSpec> all = whole_->parameters(full_shapes(in));
    const std::int64_t places = inputs(in[0]);
    all[0].shape = transposed_ ? Shape{places, all[0].shape[1]} : Shape{all[0].shape[0], places};
    all[0].pieces = false;
    return all;
  }
  [[nodiscard]] double products(const nn::Shapes& in) const override {
    return whole_->products(full_shapes(in)) * static_cast<double>(own().places()) /
           static_cast<double>(tiles_.in_h * tiles_.in_w);
  }

  void prepare(const nn::Shapes& in, DType dtype) override {
    const Shape y = outputs(in)[0];
    dense_ = {.batch = y[0], .in = inputs(in[0]), .out = y[1], .transposed = transposed_, .activation = {}};
    partial_ = Tensor(dtype, y);
    scaled_ = Tensor(dtype, y);
    HaloSpec spec{.name = name_ + ", partial sums", .teams = grid_.teams(), .own = {}, .need = {}};
    spec.dtype = dtype;
    for (int m = 0; m < grid_.tiles(); ++m) {
      spec.own.push_back({part_of(y.count(), grid_.tiles(), m), {0, 1}});
      spec.need.push_back({{0, y.count()}, {0, 1}});
    }
    sum_ = std::make_unique<HaloExchange>(comm_->session(), spec);
    part_ = Tensor(dtype, {sum_->own().places()});
    if (!tiled_[0]) {
      HaloSpec inputs{.name = name_ + ", inputs", .teams = grid_.teams(), .own = tiles_.own, .need = {}};
      inputs.need.assign(tiles_.own.size(), {{0, tiles_.in_h}, {0, tiles_.in_w}});
      inputs.batch = y[0];
      inputs.dtype = dtype;
      gather_ = std::make_unique<HaloExchange>(comm_->session(), inputs);
      x_ = Tensor(dtype, {y[0], dense_.in});
      dx_ = Tensor(dtype, {y[0], dense_.in});
    }
    if (!deterministic()) return;
    spec.dtype = DType::int64;
    spec.channels = kernel::ExactSums::kWords;
    exact_sum_ = std::make_unique<HaloExchange>(comm_->session(), spec);
    sums_ = kernel::ExactSums(y.count());
    own_sums_ = kernel::ExactSums(part_.count());
  }

  void forward(nn::Pass& pass) override {
    const Tensor x = mine(pass.x[0]);
    if (deterministic()) {
      sums_.clear();
      kernel::exact_dense(dense_, x, pass.parameter[0], sums_);
      exact_sum_->backward(sums_.words().data(), own_sums_.words().data());
      own_sums_.put(part_);
    } else if (dense_.in == 0) {
      partial_.fill(0);
    } else {
      kernel::dense_forward(dense_, x, pass.parameter[0], none_, partial_);
    }
    if (!deterministic()) sum_->backward(partial_.raw(), part_.raw());
    sum_->forward(part_.raw(), pass.y[0].raw());
    kernel::activate_columns(pass.y[0].dtype(), activation_, pass.y[0].raw(), bias_ ? pass.parameter[1].raw() : nullptr,
                             dense_.batch, dense_.out, 0, dense_.out);
  }

  void backward(nn::Pass& pass) override {
    kernel::activation_gradient(activation_, pass.y[0], pass.dy[0], bias_ ? pass.gradient[1].raw() : nullptr,
                                dense_.out);
    const bool slice = gather_ != nullptr && !pass.dx[0].empty();
    if (dense_.in > 0) {
      scale(scaled_, pass.dy[0], share_);
      const auto run = deterministic() ? kernel::ordered_dense_backward : kernel::dense_backward;
      run(dense_, gather_ == nullptr ? pass.x[0] : x_, pass.parameter[0], partial_, scaled_,
          {.dx = slice ? dx_ : pass.dx[0], .weight_gradient = pass.gradient[0], .bias_gradient = none_});
    }
    if (!slice) return;
    scale(dx_, dx_, 1 / share_);  // every rank of the group has the whole gradient
    gather_->forward(dx_.raw(), pass.dx[0].raw());
  }

 private:
  [[nodiscard]] const nn::DenseOptions& product() const { return whole_->capabilities().product->product(); }
  /// Returns the number of inputs that this rank multiplies: those of its tile, or its part of inputs that every rank
  /// has.
  [[nodiscard]] std::int64_t inputs(const Shape& in) const {
    return tiled_[0] ? in.count(1, in.rank()) : own().places();
  }
  [[nodiscard]] Tensor mine(const Tensor& x) const {
    if (gather_ == nullptr) return x;
    const std::size_t size = size_of(x.dtype());
    for (std::int64_t n = 0; n < dense_.batch; ++n) {
      copy_bytes(
          static_cast<std::byte*>(x_.raw()) + static_cast<std::size_t>(n * dense_.in) * size,
          static_cast<const std::byte*>(x.raw()) + static_cast<std::size_t>(n * tiles_.in_w + own().w.begin) * size,
          static_cast<std::size_t>(dense_.in) * size);
    }
    return x_;
  }

  const kernel::Activation activation_;
  const bool transposed_;
  const bool bias_;
  const Tensor none_;
  kernel::Dense dense_;
  Tensor partial_;  // this rank's contribution to the sums
  Tensor part_;     // the sums that this rank computes
  Tensor scaled_;
  std::unique_ptr<HaloExchange> sum_;
  // If every rank has all inputs: this rank's part of them, and the exchange that combines the parts of their gradient.
  Tensor x_;
  Tensor dx_;
  std::unique_ptr<HaloExchange> gather_;
  // Deterministic mode: exact sums of all outputs, and of those that this rank computes.
  kernel::ExactSums sums_;
  kernel::ExactSums own_sums_;
  std::unique_ptr<HaloExchange> exact_sum_;
};

/// Makes sums count each sample once when every rank of a group has the same samples.
class PerGroupSums final : public nn::BatchParts {
 public:
  explicit PerGroupSums(int tiles) : tiles_(tiles) {}
  nn::BatchParts* of(nn::BatchParts* all) {
    all_ = all;
    return all == nullptr ? nullptr : this;
  }
  [[nodiscard]] int count() const override { return all_->count() / tiles_; }
  [[nodiscard]] int index() const override { return all_->index() / tiles_; }
  void sum(std::span<double> numbers) override {
    all_->sum(numbers);
    for (double& number : numbers) number /= tiles_;
  }
  void sum(std::span<std::int64_t> numbers) override {
    all_->sum(numbers);
    for (std::int64_t& number : numbers) number /= tiles_;
  }

 private:
  const int tiles_;
  nn::BatchParts* all_ = nullptr;
};

class GatherLayer final : public GatheredLayer {
 public:
  GatherLayer(nn::LayerPtr whole, const LayerPlan& plan, const ImageTiles& tiles, const Plan& of,
              std::shared_ptr<Communicator> comm)
      : GatheredLayer(std::move(whole), plan, tiles, of, std::move(comm)), parts_(grid_.tiles()) {}

  [[nodiscard]] std::vector<nn::ParamSpec> parameters(const nn::Shapes& in) const override {
    std::vector<nn::ParamSpec> all = whole_->parameters(full_shapes(in));
    for (nn::ParamSpec& spec : all) spec.pieces = false;
    return all;
  }
  [[nodiscard]] nn::Shapes workspace(const nn::Shapes& in) const override { return whole_->workspace(full_shapes(in)); }
  [[nodiscard]] double products(const nn::Shapes& in) const override { return whole_->products(full_shapes(in)); }

  void prepare(const nn::Shapes& in, DType dtype) override {
    const nn::Shapes all = full_shapes(in);
    whole_->set_deterministic(deterministic());
    whole_->prepare(all, dtype);
    gathers_.clear();
    x_.assign(in.size(), {});
    dx_.assign(in.size(), {});
    for (std::size_t i = 0; i < in.size(); ++i) {
      gathers_.emplace_back();
      if (!tiled_[i]) continue;
      HaloSpec spec{.name = name_ + ", gathered", .teams = grid_.teams(), .own = tiles_.own, .need = {}};
      spec.need.assign(tiles_.own.size(), {{0, tiles_.in_h}, {0, tiles_.in_w}});
      spec.batch = in[i][0];
      spec.channels = all[i].count(1, all[i].rank()) / (tiles_.in_h * tiles_.in_w);
      spec.dtype = dtype;
      gathers_.back() = std::make_unique<HaloExchange>(comm_->session(), spec);
      x_[i] = Tensor(dtype, all[i]);
    }
  }

  void forward(nn::Pass& pass) override {
    const std::vector<Tensor> tiles = pass.x;
    const auto parts = pass.parts;
    for (std::size_t i = 0; i < x_.size(); ++i) {
      if (gathers_[i] == nullptr) continue;
      gathers_[i]->forward(tiles[i].raw(), x_[i].raw());
      pass.x[i] = x_[i];
    }
    pass.parts = parts_of(parts);
    whole_->forward(pass);
    pass.x = tiles;
    pass.parts = parts;
  }

  void backward(nn::Pass& pass) override {
    const std::vector<Tensor> tiles = pass.x;
    const std::vector<Tensor> gradients = pass.dx;
    const auto parts = pass.parts;
    for (std::size_t i = 0; i < x_.size(); ++i) {
      if (gathers_[i] == nullptr) continue;
      pass.x[i] = x_[i];
      if (gradients[i].empty()) continue;
      if (dx_[i].empty()) dx_[i] = Tensor(x_[i].dtype(), x_[i].shape());
      pass.dx[i] = dx_[i];
    }
    pass.parts = parts_of(parts);
    whole_->backward(pass);
    for (std::size_t i = 0; i < x_.size(); ++i) {
      if (gathers_[i] != nullptr && !gradients[i].empty()) take_tile(gradients[i], dx_[i]);
    }
    pass.x = tiles;
    pass.dx = gradients;
    pass.parts = parts;
  }

 private:
  /// Deterministic mode has one group, and the whole batch is present here.
  [[nodiscard]] nn::BatchParts* parts_of(nn::BatchParts* all) { return deterministic() ? nullptr : parts_.of(all); }

  /// Copies this rank's tile of the gradient. Every rank of the group has 1 / tiles of the whole gradient.
  void take_tile(const Tensor& to, const Tensor& from) const {
    const std::int64_t batch = from.shape()[0];
    const std::int64_t place = from.count() / (batch * tiles_.in_h * tiles_.in_w);
    const std::size_t size = size_of(from.dtype());
    const std::int64_t length = own().w.size() * place;
    auto* out = static_cast<std::byte*>(to.raw());
    for (std::int64_t n = 0; n < batch; ++n) {
      for (std::int64_t h = own().h.begin; h < own().h.end; ++h) {
        const std::int64_t at = ((n * tiles_.in_h + h) * tiles_.in_w + own().w.begin) * place;
        copy_bytes(out, static_cast<const std::byte*>(from.raw()) + static_cast<std::size_t>(at) * size,
                   static_cast<std::size_t>(length) * size);
        out += static_cast<std::size_t>(length) * size;
      }
    }
    scale(to, to, share_);
  }

  PerGroupSums parts_;
  std::vector<std::unique_ptr<HaloExchange>> gathers_;  // by input; null if the input is whole already
  std::vector<Tensor> x_;
  std::vector<Tensor> dx_;
};

}  // namespace

nn::LayerPtr tower_layer(nn::LayerPtr whole, const LayerPlan& plan, const TowerWork& work, const Plan& of,
                         std::shared_ptr<Communicator> comm) {
  return std::make_unique<TowerLayer>(std::move(whole), plan, work, of, std::move(comm));
}

nn::LayerPtr gather_layer(nn::LayerPtr whole, const LayerPlan& plan, const Plan& of,
                          std::shared_ptr<Communicator> comm) {
  const ImageTiles* const tiles = plan.tiles();
  return std::make_unique<GatherLayer>(std::move(whole), plan, tiles == nullptr ? ImageTiles{} : *tiles, of,
                                       std::move(comm));
}

}  // namespace pleiad

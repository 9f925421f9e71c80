#include "plan/spread_layer.h"

#include <algorithm>

#include "nn/layer_proxy.h"
#include "plan/tile_layer.h"
#include "pleiad/spatial.h"

namespace pleiad {
namespace {

class SpreadLayer final : public nn::LayerProxy {
 public:
  SpreadLayer(nn::LayerPtr whole, std::string name, SpreadWork work, const Plan& of, std::shared_ptr<Communicator> comm)
      : nn::LayerProxy(std::move(whole)),
        name_(std::move(name)),
        work_(std::move(work)),
        grid_(of.grid),
        delay_(of.halo_delay),
        comm_(std::move(comm)),
        micro_batches_wanted_(overlaps(of, *comm_) ? 2 : 1),
        tile_(static_cast<std::size_t>(of.grid.tile_of(comm_->rank()))) {}

  [[nodiscard]] nn::Shapes outputs(const nn::Shapes& in) const override {
    return on_tile_outputs(*whole_, work_, tile_, in);
  }
  [[nodiscard]] std::vector<nn::ParamSpec> parameters(const nn::Shapes& in) const override {
    return on_tile_parameters(*whole_, work_, tile_, in);
  }
  [[nodiscard]] double products(const nn::Shapes& in) const override {
    return whole_->products(full_shapes(in)) * static_cast<double>(work_.own[tile_].places()) /
           static_cast<double>(work_.in_h * work_.in_w);
  }

  void prepare(const nn::Shapes& in, DType dtype) override {
    const std::int64_t batch = in[0][0];
    const std::int64_t channels = outputs(in)[0][3];
    HaloSpec spec{.name = name_, .teams = grid_.teams(), .own = work_.out, .need = work_.reach};
    spec.batch = batch;
    spec.channels = channels;
    spec.dtype = dtype;
    spec.pieces = static_cast<int>(std::min<std::int64_t>(micro_batches_wanted_, batch));
    spec.delay = delay_;
    halo_ = std::make_unique<HaloExchange>(comm_->session(), spec);
    const Rect& reached = work_.reach[tile_];
    shares_ = Tensor(dtype, image_shape(batch, reached, channels));
    micro_batches_.clear();
    for (int p = 0; p < spec.pieces; ++p) {
      MicroBatch& micro_batch = micro_batches_.emplace_back();
      if (work_.own[tile_].empty()) continue;
      micro_batch.layer = on_region(*whole_, work_, work_.own[tile_], reached);
      Shape shape = in[0];
      shape.set(0, halo_->samples(p).size());
      micro_batch.layer->prepare({shape}, dtype);
    }
    bound_ = false;
  }

  void forward(nn::Pass& pass) override {
    bind(pass);
    for (std::size_t p = 0; p < micro_batches_.size(); ++p) {
      if (micro_batches_[p].layer != nullptr) micro_batches_[p].layer->forward(micro_batches_[p].pass);
      halo_->begin_backward(static_cast<int>(p), shares_.raw());
    }
    for (std::size_t p = 0; p < micro_batches_.size(); ++p) {
      halo_->finish_backward(static_cast<int>(p), shares_.raw(), pass.y[0].raw());
    }
  }

  void backward(nn::Pass& pass) override {
    for (std::size_t p = 0; p < micro_batches_.size(); ++p) halo_->begin_forward(static_cast<int>(p), pass.dy[0].raw());
    for (std::size_t p = 0; p < micro_batches_.size(); ++p) {
      halo_->finish_forward(static_cast<int>(p), pass.dy[0].raw(), shares_.raw());
      if (micro_batches_[p].layer == nullptr) continue;
      micro_batches_[p].layer->backward(micro_batches_[p].pass);
      if (p > 0) add_gradients(pass, micro_batches_[p].pass);
    }
  }

 protected:
  [[nodiscard]] nn::Shapes full_shapes(const nn::Shapes& in) const override { return whole_shapes(work_, in); }

 private:
  struct MicroBatch {
    nn::LayerPtr layer;  // null if this rank has no positions
    nn::Pass pass;
  };

  void bind(nn::Pass& pass) {
    for (std::size_t p = 0; p < micro_batches_.size(); ++p) {
      copy_step_info(micro_batches_[p].pass, pass);
      micro_batches_[p].pass.first_sample += halo_->samples(static_cast<int>(p)).begin;
    }
    if (bound_) return;
    bound_ = true;
    for (std::size_t p = 0; p < micro_batches_.size(); ++p) {
      nn::Pass& part = micro_batches_[p].pass;
      const Interval samples = halo_->samples(static_cast<int>(p));
      share_parameters(part, pass);
      if (p > 0) allocate_own_gradients(part);
      part.x = {rows_of(pass.x[0], samples)};
      part.dx = {rows_of(pass.dx[0], samples)};
      part.y = part.dy = {rows_of(shares_, samples)};  // outputs are not needed again
    }
  }

  const std::string name_;
  const SpreadWork work_;
  const Grid grid_;
  const double delay_;
  const std::shared_ptr<Communicator> comm_;
  const std::int64_t micro_batches_wanted_;
  const std::size_t tile_;
  std::unique_ptr<HaloExchange> halo_;  // the layer's forward runs the exchange's backward
  Tensor shares_;  // contributions to all outputs that this rank's positions reach, or the gradients by those outputs
  std::vector<MicroBatch> micro_batches_;
  bool bound_ = false;
};

}  // namespace

nn::LayerPtr spread_layer(nn::LayerPtr whole, const std::string& name, const SpreadWork& work, const Plan& of,
                          std::shared_ptr<Communicator> comm) {
  return std::make_unique<SpreadLayer>(std::move(whole), name, work, of, std::move(comm));
}

}  // namespace pleiad

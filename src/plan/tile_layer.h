// A layer that runs on one tile: its halo exchange and its part of the computation.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "nn/layer_proxy.h"
#include "plan/bands.h"
#include "plan/communicator.h"
#include "plan/on_tile.h"
#include "pleiad/plan.h"
#include "pleiad/spatial.h"

namespace pleiad {

/// Returns true if exchanges overlap with computation, as the plan requests.
[[nodiscard]] bool overlaps(const Plan& plan, const Communicator& comm);

/// Takes this rank's tile of each input of `whole`, receives the halo that its outputs need, and computes its tile of
/// the outputs. With overlap, it first computes the outputs that need no halo (Bands). If there are too few of these,
/// it splits the batch into halves and exchanges one while it computes the other. The next layer's forward exchange
/// starts as soon as this layer has computed its input. In backward, this layer completes the exchange that the next
/// layer has started.
class TileLayer final : public nn::LayerProxy {
 public:
  TileLayer(nn::LayerPtr whole, std::string name, TileWork work, const Plan& of, std::shared_ptr<Communicator> comm);
  ~TileLayer() override;

  /// Declares that `next` takes this layer's output in the same phases. `alone`: no other layer takes it, so `next` may
  /// leave the end of its backward exchange to this layer.
  void followed_by(TileLayer& next, bool alone);

  [[nodiscard]] nn::Shapes outputs(const nn::Shapes& in) const override;
  [[nodiscard]] std::vector<nn::ParamSpec> parameters(const nn::Shapes& in) const override;
  [[nodiscard]] double products(const nn::Shapes& in) const override;
  void prepare(const nn::Shapes& in, DType dtype) override;
  void forward(nn::Pass& pass) override;
  void backward(nn::Pass& pass) override;

 protected:
  [[nodiscard]] nn::Shapes full_shapes(const nn::Shapes& in) const override { return whole_shapes(work_, in); }

 private:
  /// A part of the batch.
  struct MicroBatch {
    Interval samples;
    nn::LayerPtr layer;                   // null if this rank has no outputs
    nn::TwoStageLayer* stages = nullptr;  // null if backward has one stage
    nn::Pass pass;
  };
  void bind(nn::Pass& pass);
  /// Starts the forward exchange of the pieces whose samples all come before `end`.
  void begin_until(std::int64_t end);
  /// Completes the backward exchange of the pieces that begin before `end`.
  void finish_until(std::int64_t end);

  const std::string name_;
  const TileWork work_;
  const Grid grid_;
  const double delay_;
  const std::shared_ptr<Communicator> comm_;
  const bool overlap_;
  const std::size_t tile_;
  std::vector<TileLayer*> next_;
  std::vector<TileLayer*> ended_here_;  // the layers of next_ whose backward exchange this layer completes
  bool left_to_last_ = false;           // the previous layer completes this layer's backward exchange
  bool exchanged_ = false;
  std::vector<std::unique_ptr<HaloExchange>> halos_;  // by input; empty if tiles need no halo
  std::vector<Tensor> x_;                             // inputs with halos
  std::vector<Tensor> dx_;
  std::vector<Tensor> tile_x_;   // the net's own tensors, set by bind()
  std::vector<Tensor> tile_dx_;  // the net's own tensors, set by bind(); empty if no gradient is needed
  std::vector<MicroBatch> micro_batches_;
  std::unique_ptr<Bands> bands_;  // null if the tile is computed as a whole
  bool bound_ = false;
  std::size_t begun_ = 0;
  std::size_t finished_ = 0;
};

}  // namespace pleiad

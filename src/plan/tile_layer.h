// A layer that works on a tile: its exchange of halos, and its part of the computation.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "plan/bands.h"
#include "plan/crew.h"
#include "plan/on_tile.h"
#include "plan/stand_in.h"
#include "pleiad/plan.h"
#include "pleiad/spatial.h"

namespace pleiad {

/// Whether exchanges go under the computation: as the plan says.
[[nodiscard]] bool overlaps(const Plan& plan, const Crew& crew);

/// In place of `whole`: takes this rank's tile of each input, gets what its outputs need beyond it, and computes its
/// tile of the outputs. Where exchanges go under the computation, what needs no halo is computed first (bands); where
/// that is little, the batch goes in halves, of which one is under way while the other is computed. A layer that
/// follows begins its exchange as soon as this one has computed what it takes, and in backward this one ends the
/// exchange that the follower has begun.
class TileLayer final : public StandIn {
 public:
  TileLayer(nn::LayerPtr whole, LayerPlan plan, const Plan& of, std::shared_ptr<Crew> crew);
  ~TileLayer() override;

  /// `next` takes this layer's output, in the same phases. `alone`: nobody else does, so that backward may leave the
  /// end of its exchange to this layer.
  void followed_by(TileLayer& next, bool alone);

  [[nodiscard]] bool spatial() const override { return true; }
  [[nodiscard]] nn::Shapes outputs(const nn::Shapes& in) const override;
  [[nodiscard]] std::vector<nn::ParamSpec> parameters(const nn::Shapes& in) const override;
  [[nodiscard]] std::vector<nn::ParamSpec> states(const nn::Shapes& in) const override;
  [[nodiscard]] double products(const nn::Shapes& in) const override;
  void prepare(const nn::Shapes& in, DType dtype) override;
  void forward(nn::Pass& pass) override;
  void backward(nn::Pass& pass) override;

 private:
  /// A part of the batch.
  struct Piece {
    Interval samples;
    nn::LayerPtr layer;  // null where this rank has no outputs
    nn::Pass pass;
  };
  void bind(nn::Pass& pass);
  /// Begins the exchange of pieces whose samples all come before `end`.
  void begin_until(std::int64_t end);
  /// Ends the backward exchange of pieces that begin before `end`.
  void finish_until(std::int64_t end);

  const LayerPlan plan_;
  const Grid grid_;
  const double delay_;
  const std::shared_ptr<Crew> crew_;
  const bool overlap_;
  const std::size_t tile_;
  std::vector<TileLayer*> next_;
  std::vector<TileLayer*> ended_here_;  // of next_, those whose backward exchange this layer ends
  bool left_to_last_ = false;           // the layer before ends this one's backward exchange
  bool exchanged_ = false;
  std::vector<std::unique_ptr<HaloExchange>> halos_;  // by input; empty where tiles are what is needed
  std::vector<Tensor> x_;                             // with halos
  std::vector<Tensor> dx_;
  std::vector<Tensor> tile_x_;   // the net's own, once bound
  std::vector<Tensor> tile_dx_;  // the net's own, once bound; empty where nobody needs one
  std::vector<Piece> pieces_;
  std::unique_ptr<Bands> bands_;  // null: pieces are computed at once
  bool bound_ = false;
  std::size_t begun_ = 0;
  std::size_t finished_ = 0;
};

}  // namespace pleiad

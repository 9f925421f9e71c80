// Splits a tile into an inner part that needs no halo and the bands around it.
#pragma once

#include <memory>
#include <vector>

#include "pleiad/plan.h"

namespace pleiad {

/// Runs a layer on a tile so that the halo exchange overlaps with computation. Forward computes the inner outputs while
/// the halo arrives. Backward computes the border first and the inner part while the border's gradients travel to the
/// ranks that own them. The parts are copied to dense buffers of their own. A TwoStageLayer hides the
/// exchange under its parameter gradients, so its backward runs on the whole tile; its forward computes the inner part
/// directly from the tile as if it had no neighbours, and then computes the border again with the halo.
class Bands {
 public:
  /// Returns true if at least half of the outputs of every tile need no halo. Then the inner part takes long enough to
  /// hide the exchange.
  [[nodiscard]] static bool pay(const nn::Layer& whole, const TileWork& work);
  /// Returns null if every output needs the halo, or if the layer has parameters per position.
  static std::unique_ptr<Bands> make(const nn::Layer& whole, const TileWork& work, std::size_t tile,
                                     const nn::Shapes& in, DType dtype);

  /// True if backward runs on the whole tile. Then the caller must not call backward() of this class.
  [[nodiscard]] bool forward_only() const { return forward_only_; }

  void bind(const nn::Pass& pass);
  /// Computes the inner part or the border. `x` covers the region `rect`: the tile for the inner part, the tile with
  /// its halo for the border.
  void forward(bool border, nn::Pass& pass, const std::vector<Tensor>& x, const Rect& rect);
  /// Adds gradients to `dx`, which covers the region that the tile needs. The call for the border must come first; it
  /// clears dx.
  void backward(bool border, nn::Pass& pass, const std::vector<Tensor>& dx);

 private:
  struct Band {
    bool border = false;
    bool as_it_lies = false;  // reads and writes the net's own tensors
    Rect in;
    Rect out;
    nn::LayerPtr layer;
    nn::Pass pass;
  };

  Rect need_;
  Rect out_;
  bool forward_only_ = false;
  std::vector<Band> bands_;  // in the order of backward: the border bands, then the inner part
};

}  // namespace pleiad

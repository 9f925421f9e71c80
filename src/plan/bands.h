// A tile in parts: what needs no halo, and the bands around it.
#pragma once

#include <memory>
#include <vector>

#include "pleiad/plan.h"

namespace pleiad {

/// A layer on a tile, whose inner outputs are computed while the halo is under way, and in backward while what belongs
/// to others is: the border first then. Parts are packed into dense buffers of their own; but a layer whose backward
/// comes in two has enough to do there, so that its tile is then left whole, and in forward the inner part is computed
/// from the tile as it lies, as if nothing were around it, and the border once more with its halo.
class Bands {
 public:
  /// True where on every tile at least half of the outputs need no halo, so that these are enough to hide it under.
  [[nodiscard]] static bool pay(const nn::Layer& whole, const LayerPlan& plan);
  /// Null where no output does without the halo, or parameters are those of places.
  static std::unique_ptr<Bands> make(const nn::Layer& whole, const LayerPlan& plan, std::size_t tile,
                                     const nn::Shapes& in, DType dtype);

  /// Backward is the whole tile's: not to be asked of these.
  [[nodiscard]] bool forward_only() const { return forward_only_; }

  void bind(const nn::Pass& pass);
  /// From `x`, which hold the places `rect`: the tile for the inner part, with its halo for the border.
  void forward(bool border, nn::Pass& pass, const std::vector<Tensor>& x, const Rect& rect);
  /// Adds to `dx`, of the places that the tile needs. The border comes first and begins with dx = 0.
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
  std::vector<Band> bands_;  // in the order of backward: the border's, then the inner part
};

}  // namespace pleiad

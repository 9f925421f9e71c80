// Runs a layer that keeps the image size on a part of an image: the layer computes all positions that the outputs
// depend on, and the outputs are cropped from its result.
#pragma once

#include "pleiad/nn/layer.h"

namespace pleiad::nn {

/// `same` must have outputs of its inputs' size. The outputs in `place.out` must depend only on inputs that
/// input_interval names, so that wrong values near the edge of `place.in` do not matter.
[[nodiscard]] LayerPtr cropped(LayerPtr same, const TilePlace& place);

}  // namespace pleiad::nn

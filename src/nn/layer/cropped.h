// A layer that keeps the image's size, on a part of it: computed on all that its outputs need, of which the outputs are
// the inner part.
#pragma once

#include "pleiad/nn/layer.h"

namespace pleiad::nn {

/// `same` gives as many places as it takes, and at a place's own outputs uses nothing that input_interval does not
/// name: so what it makes of places near the edge of `place.in` does not matter.
[[nodiscard]] LayerPtr cropped(LayerPtr same, const TilePlace& place);

}  // namespace pleiad::nn

// A loss over tiled images.
#pragma once

#include "pleiad/plan.h"

namespace pleiad {

/// Returns a replacement for `whole`, which must be a ScoringLayer with sums_places. Each rank computes the
/// contribution of its positions, multiplied by the number of tiles, so that the mean over the ranks is the loss.
[[nodiscard]] nn::LayerPtr loss_layer(nn::LayerPtr whole, const Plan& of);

}  // namespace pleiad

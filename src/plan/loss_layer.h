// A loss over images in tiles.
#pragma once

#include "pleiad/plan.h"

namespace pleiad {

/// In place of `whole` (Layer::sums_places): each rank has the share of its places, times their number of tiles, so
/// that the mean over the ranks is the loss, as where every rank has all of it.
[[nodiscard]] nn::LayerPtr loss_layer(nn::LayerPtr whole, const Plan& of);

}  // namespace pleiad

// Layers that follow images in tiles and need all of them.
#pragma once

#include <memory>

#include "plan/crew.h"
#include "pleiad/plan.h"

namespace pleiad {

/// A dense layer over images in tiles: each rank multiplies its places by their weights, and the partial sums of a
/// group are summed by all of its ranks together, each a part of them (reduce-scatter, all-gather). Every rank of the
/// group has the outputs. Its weight is that of the tile's places. Over inputs that every rank has, each takes a part
/// of them.
[[nodiscard]] nn::LayerPtr tower_layer(nn::LayerPtr whole, const LayerPlan& plan, const Plan& of,
                                       std::shared_ptr<Crew> crew);

/// Any layer: images in tiles are gathered, and every rank of a group does all of it.
[[nodiscard]] nn::LayerPtr gather_layer(nn::LayerPtr whole, const LayerPlan& plan, const Plan& of,
                                        std::shared_ptr<Crew> crew);

}  // namespace pleiad

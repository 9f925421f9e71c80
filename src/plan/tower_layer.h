// Layers that follow tiled images and need the whole image.
#pragma once

#include <memory>

#include "plan/communicator.h"
#include "pleiad/plan.h"

namespace pleiad {

/// Returns a dense layer over tiled images. Each rank multiplies its positions by their weights. The partial sums are
/// combined over the ranks of a group by a reduce-scatter and an all-gather, after which every rank of the group has
/// the outputs. A rank holds the weights of its tile's positions. If every rank has the whole input, each rank takes a
/// part of it.
[[nodiscard]] nn::LayerPtr tower_layer(nn::LayerPtr whole, const LayerPlan& plan, const TowerWork& work, const Plan& of,
                                       std::shared_ptr<Communicator> comm);

/// Returns a replacement for any layer: it gathers the tiled images, and every rank of a group computes the whole
/// layer.
[[nodiscard]] nn::LayerPtr gather_layer(nn::LayerPtr whole, const LayerPlan& plan, const Plan& of,
                                        std::shared_ptr<Communicator> comm);

}  // namespace pleiad

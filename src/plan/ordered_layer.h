// A layer on a tile, in deterministic mode.
#pragma once

#include <memory>

#include "plan/crew.h"
#include "pleiad/plan.h"

namespace pleiad {

/// In place of `whole`, which works on tiles ("tile", "spread"). Nothing is summed between ranks but exact sums: a rank
/// gets all inputs, and in backward all gradients, that its own places have to do with, and makes their sums itself, in
/// the order in which one process would. Filters of places that are not its own it gets from their rank.
[[nodiscard]] nn::LayerPtr ordered_layer(nn::LayerPtr whole, const LayerPlan& plan, const Plan& of,
                                         std::shared_ptr<Crew> crew);

}  // namespace pleiad

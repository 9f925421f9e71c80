// A layer on a tile in deterministic mode.
#pragma once

#include <memory>

#include "plan/communicator.h"
#include "pleiad/plan.h"

namespace pleiad {

/// Returns a replacement for `whole`, a layer with TileWork or SpreadWork. Ranks exchange no partial sums except exact
/// ones. Each rank receives all inputs, and in backward all gradients, that its own positions depend on, and computes
/// their sums itself in the order in which a single process would. It also receives the filters of positions that other
/// ranks own.
[[nodiscard]] nn::LayerPtr ordered_layer(nn::LayerPtr whole, const std::string& name, const TiledWork& work,
                                         const Plan& of, std::shared_ptr<Communicator> comm);

}  // namespace pleiad

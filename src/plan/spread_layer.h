// A layer whose input positions contribute to outputs around them: local convolution with transposed filters.
#pragma once

#include <memory>

#include "plan/communicator.h"
#include "pleiad/plan.h"

namespace pleiad {

/// Returns a replacement for `whole`, which must be a SpreadingLayer. Each rank computes the contributions of its input
/// positions to all outputs that they reach; the contributions are summed at the ranks that own the outputs. Backward
/// receives the gradients of the outputs that its positions reach. With overlap, one half of the batch is exchanged
/// while the other is computed.
[[nodiscard]] nn::LayerPtr spread_layer(nn::LayerPtr whole, const std::string& name, const SpreadWork& work,
                                        const Plan& of, std::shared_ptr<Communicator> comm);

}  // namespace pleiad

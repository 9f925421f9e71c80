// A layer whose places give to outputs around them: transposed local filters.
#pragma once

#include <memory>

#include "plan/crew.h"
#include "pleiad/plan.h"

namespace pleiad {

/// In place of `whole` (Layer::spreads): from its places each rank computes what they give to all outputs that they
/// reach; shares are summed at the outputs' places. Backward gets the gradients of what its places reach. One half of
/// the batch travels while the other is computed.
[[nodiscard]] nn::LayerPtr spread_layer(nn::LayerPtr whole, const LayerPlan& plan, const Plan& of,
                                        std::shared_ptr<Crew> crew);

}  // namespace pleiad

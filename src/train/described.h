// What a trainer was asked to do, as named values: for the comparison of ranks.
#pragma once

#include "plan/same.h"
#include "pleiad/train.h"

namespace pleiad {

/// Every option that must be the same on all ranks. `events` and `events_details` are left out: rank 0 alone writes
/// them.
[[nodiscard]] NamedValues described(const TrainOptions& options);
/// Inputs and layers with their options. The seed is left out: rank 0's counts.
[[nodiscard]] NamedValues described(const nn::Net& net);

}  // namespace pleiad

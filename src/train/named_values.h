// Describes what a trainer was asked to do as named values, for comparison between ranks.
#pragma once

#include "plan/expect_same.h"
#include "pleiad/train.h"

namespace pleiad {

/// Returns every option that must be equal on all ranks. Omits `events` and `events_details`, because only rank 0
/// writes them.
[[nodiscard]] NamedValues named_values(const TrainOptions& options);
/// Returns the inputs and the layers with their options. Omits the seed, because all ranks take rank 0's.
[[nodiscard]] NamedValues named_values(const nn::Net& net);

}  // namespace pleiad

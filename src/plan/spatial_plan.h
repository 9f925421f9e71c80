// How a net lies on a grid of ranks: which layers work on tiles, what their outputs need, and what that costs.
#pragma once

#include "core/text.h"
#include "pleiad/plan.h"

namespace pleiad {

/// A grid that is not the number of ranks, a batch that the groups do not share, or a net without images, is an
/// InvalidArgument.
[[nodiscard]] Plan spatial_plan(const nn::Net& net, const PlanOptions& options, int ranks, std::int64_t batch);

[[nodiscard]] std::string explain_spatial(const Plan& plan);
/// A cell of the tables of explain: empty for 0.
[[nodiscard]] inline std::string bytes_text(std::int64_t bytes) {
  return bytes == 0 ? "" : byte_size(static_cast<std::uint64_t>(bytes));
}

}  // namespace pleiad

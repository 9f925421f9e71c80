// Plans how a net is distributed over a grid of ranks: which layers run on tiles, which inputs their outputs need, and
// the cost.
#pragma once

#include <optional>

#include "core/text.h"
#include "pleiad/plan.h"

namespace pleiad {

/// Throws InvalidArgument if the grid does not have `ranks` ranks, if the batch is not divisible by the number of
/// groups, or if the net has no image inputs.
[[nodiscard]] Plan spatial_plan(const nn::Net& net, const PlanOptions& options, int ranks, std::int64_t batch);

/// Returns the grid that the options name, or nothing if they leave the choice to the cost model.
[[nodiscard]] std::optional<Grid> given_grid(const PlanOptions& options, int ranks);

[[nodiscard]] std::string explain_spatial(const Plan& plan);
/// Formats a table cell of explain(); empty for 0.
[[nodiscard]] inline std::string bytes_text(std::int64_t bytes) {
  return bytes == 0 ? "" : byte_size(static_cast<std::uint64_t>(bytes));
}

}  // namespace pleiad

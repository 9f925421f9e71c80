// Checks that all ranks that train together were given the same job.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pleiad/api.h"
#include "pleiad/session.h"

namespace pleiad {

/// Named values that describe the job of a rank. Names are unique.
using NamedValues = std::vector<std::pair<std::string, std::string>>;

/// Collective. Compares `mine` on all ranks of the session. If they differ, throws InvalidArgument on every rank. The
/// text begins with `what` and lists the first names whose values differ, with the values of rank 0 and of the other
/// rank.
PLEIAD_API void expect_same(Session& session, std::string_view what, const NamedValues& mine);

/// Returns the lines of a text under the names "line 1", "line 2" and so on.
[[nodiscard]] PLEIAD_API NamedValues lines_of(const std::string& text);

}  // namespace pleiad

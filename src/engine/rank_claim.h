// One process of a host is a rank, and no other one claims the same rank meanwhile.
#pragma once

#include "engine/launcher.h"

namespace pleiad {

/// Claims the rank that the launcher's variables give to this process, until the process ends. Returns false if another
/// process of this host has claimed it. A process that a rank spawns inherits the launcher's variables, often without
/// the mark that mark_as_rank() leaves, because programs pass on copies of the environment that they had at their
/// start. Returns true where the variables name no rank.
[[nodiscard]] bool claim_rank(const Launch& launch);

/// Returns true if another process of this host has claimed the rank of `launch`. Claims nothing.
[[nodiscard]] bool rank_is_claimed(const Launch& launch);

}  // namespace pleiad

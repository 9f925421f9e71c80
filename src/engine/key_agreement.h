// How the processes of a job agree on its key over connections to which others may listen.
#pragma once

#include <cstddef>

#include "core/function_ref.h"
#include "engine/job_key.h"

namespace pleiad {

/// Gathers `bytes` bytes of every rank, in rank order. Collective.
using GatherBytes = FunctionRef<void(const void* mine, void* all, std::size_t bytes)>;

/// Collective: returns a random key of rank 0 on every rank. It travels in boxes that only their receiver can open
/// (libsodium's sealed boxes), so whoever only listens learns nothing. It does not protect from somebody who can change
/// what `gather` carries.
[[nodiscard]] JobKey agree_on_key(int rank, int size, GatherBytes gather);

}  // namespace pleiad

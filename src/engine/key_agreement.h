// How the processes of a job agree on its key over connections that others may read.
#pragma once

#include <cstddef>

#include "core/function_ref.h"
#include "engine/job_key.h"

namespace pleiad {

/// A collective that gathers `bytes` bytes of every rank, in rank order.
using GatherBytes = FunctionRef<void(const void* mine, void* all, std::size_t bytes)>;

/// Collective: returns a random key, chosen by rank 0, on every rank. The key travels in libsodium's sealed boxes,
/// which only the receiver can open, so a passive listener learns nothing. It does not protect against an attacker who
/// can change what `gather` transfers.
[[nodiscard]] JobKey agree_on_key(int rank, int size, GatherBytes gather);

}  // namespace pleiad

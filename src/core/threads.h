// Splits work over the compute threads of the calling thread (OpenMP). Nested calls run on one thread.
#pragma once

#include <cstdint>

#include "core/function_ref.h"

namespace pleiad {

/// Returns the number of threads over which work of the calling thread is split.
[[nodiscard]] int compute_threads();
/// Sets that number, at least 1, for later work of the calling thread.
void set_compute_threads(int threads);

/// Makes idle OpenMP threads sleep after some microseconds, unless GOMP_SPINCOUNT or OMP_WAIT_POLICY is set. libgomp
/// lets them spin for milliseconds while it has no more threads than the machine has cores, which takes the cores away
/// from other processes; this function therefore adds idle threads. Call it before using OpenMP other than by
/// parallel_for(). Only the first call has an effect.
void shorten_spinning();

/// Calls body(begin, end) concurrently for the parts of [0, count). All parts but the last have a length that is a
/// multiple of `grain`. The parts depend only on count, grain and the number of threads. There is a single part only if
/// there is one thread or one grain.
void parallel_for(std::int64_t count, std::int64_t grain, FunctionRef<void(std::int64_t, std::int64_t)> body);

}  // namespace pleiad

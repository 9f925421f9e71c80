// Work split over the compute threads of the calling thread (OpenMP). Inside such work, calls run on one thread.
#pragma once

#include <cstdint>

#include "core/function_ref.h"

namespace pleiad {

/// How many threads work of this calling thread is split over.
[[nodiscard]] int compute_threads();
/// For this calling thread and its work from now on; at least 1.
void set_compute_threads(int threads);

/// Makes OpenMP's threads sleep after some microseconds without work, unless GOMP_SPINCOUNT or OMP_WAIT_POLICY is set.
/// libgomp lets them spin for milliseconds as long as it has no more threads than the machine has cores, which takes
/// the cores away from other processes; so this adds idle threads. Code that calls OpenMP other than by parallel_for
/// calls this first. Only the first call does anything.
void shorten_spinning();

/// Calls body(begin, end) for parts of [0, count), at once, each a multiple of `grain` long but the last. The parts
/// depend on count, grain and the number of threads alone. One part only where there is but one thread or grain.
void parallel_for(std::int64_t count, std::int64_t grain, FunctionRef<void(std::int64_t, std::int64_t)> body);

}  // namespace pleiad

// The loops that move a table's bytes, vectorised for the CPU at hand.
#pragma once

#include <cstddef>

#include "pleiad/dtype.h"

namespace pleiad {

/// Copies `bytes` from `from` to `to`, which do not overlap. A plain vector loop: glibc 2.36's memcpy falls to a tenth
/// of its speed where (to - from) mod 4096 is small, which is what mapped segments and large malloc'd buffers give.
void copy_bytes(void* to, const void* from, std::size_t bytes);

/// The same, but for the caches: what is written goes to memory past them, and is there for whoever sees a later
/// release store of this thread.
void copy_bytes_past_cache(void* to, const void* from, std::size_t bytes);

/// to[i] += from[i]. The arrays do not overlap. Signed integers wrap around.
void add_to(DType dtype, void* to, const void* from, std::size_t count);

/// to[i] = a[i] - b[i]. `to` overlaps neither. Signed integers wrap around.
void subtract(DType dtype, void* to, const void* a, const void* b, std::size_t count);

/// The index of the first NaN or infinity, or `count`.
[[nodiscard]] std::size_t first_not_finite(DType dtype, const void* values, std::size_t count);

}  // namespace pleiad

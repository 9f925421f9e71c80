// The loops that copy, add and check the values of tables, vectorised for the CPU.
#pragma once

#include <cstddef>

#include "pleiad/dtype.h"

namespace pleiad {

/// Copies `bytes` from `from` to `to`, which must not overlap. A plain vector loop, because memcpy of glibc 2.36 drops
/// to a tenth of its speed if (to - from) mod 4096 is small, as it is between mapped segments and large malloc'd
/// buffers.
void copy_bytes(void* to, const void* from, std::size_t bytes);

/// Copies with non-temporal stores, which bypass the caches. The bytes are visible to every thread that sees a later
/// release store of this thread. The ranges must not overlap.
void copy_bytes_non_temporal(void* to, const void* from, std::size_t bytes);

/// to[i] += from[i]. The arrays must not overlap. Signed integers wrap around.
void add_to(DType dtype, void* to, const void* from, std::size_t count);

/// to[i] = a[i] - b[i]. `to` must not overlap the others. Signed integers wrap around.
void subtract(DType dtype, void* to, const void* a, const void* b, std::size_t count);

/// Returns the index of the first NaN or infinity, or `count` if there is none.
[[nodiscard]] std::size_t first_not_finite(DType dtype, const void* values, std::size_t count);

}  // namespace pleiad

// Element-wise reductions over the four element types.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pleiad/dtype.h"

namespace pleiad {

enum class Reduce : std::uint8_t { sum, min, max };

/// to[i] = op(to[i], from[i]); sums of floating-point values are multiplied by `factor`.
void reduce_into(DType dtype, Reduce op, void* to, const void* from, std::size_t count, double factor = 1);

/// to[i] = op(a[i], b[i]); sums of floating-point values are multiplied by `factor`.
void reduce_pair(DType dtype, Reduce op, void* to, const void* a, const void* b, std::size_t count, double factor = 1);

/// to[i] *= factor; integers are not changed.
void scale(DType dtype, void* to, double factor, std::size_t count);

}  // namespace pleiad

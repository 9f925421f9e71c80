// Sums and copies of tensors and of parts of them.
#pragma once

#include "pleiad/tensor.h"

namespace pleiad::kernel {

/// Computes to += from.
void add(const Tensor& to, const Tensor& from);
void copy(const Tensor& to, const Tensor& from);
/// Computes to *= factor.
void scale(const Tensor& to, double factor);
/// Returns the sum of all elements.
[[nodiscard]] double sum_of(const Tensor& t);
/// Scales each group of `row` consecutive elements to the L2 norm `norm`. Leaves groups of zeros unchanged.
void scale_rows(const Tensor& to, std::int64_t row, double norm);
/// Multiplies each row along the first axis by its factor. `factors` has the same element type.
void weigh_rows(const Tensor& to, const Tensor& factors);
/// Returns a view of the rows [begin, end) along the first axis. It shares the memory.
[[nodiscard]] Tensor rows_of(const Tensor& t, std::int64_t begin, std::int64_t end);
/// Copies `rows` blocks of `bytes` bytes. Blocks are `from_stride` and `to_stride` bytes apart.
void copy_strided(void* to, std::size_t to_stride, const void* from, std::size_t from_stride, std::size_t bytes,
                  std::int64_t rows);

}  // namespace pleiad::kernel

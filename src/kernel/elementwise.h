// Sums and copies of whole tensors and of parts of them.
#pragma once

#include "pleiad/tensor.h"

namespace pleiad::kernel {

/// to += from.
void add(const Tensor& to, const Tensor& from);
void copy(const Tensor& to, const Tensor& from);
/// to *= factor.
void scale(const Tensor& to, double factor);
/// The sum of all numbers.
[[nodiscard]] double sum_of(const Tensor& t);
/// Each run of `row` numbers to L2 norm `norm`; one of zeros stays.
void scale_rows(const Tensor& to, std::int64_t row, double norm);
/// rows begin to end - 1 of a tensor, along its first axis: the same memory.
[[nodiscard]] Tensor rows_of(const Tensor& t, std::int64_t begin, std::int64_t end);
/// Copies `rows` pieces of `bytes` each, `from_stride` and `to_stride` bytes apart.
void copy_strided(void* to, std::size_t to_stride, const void* from, std::size_t from_stride, std::size_t bytes,
                  std::int64_t rows);

}  // namespace pleiad::kernel

// Sums and copies of whole tensors and of parts of them.
#pragma once

#include "pleiad/tensor.h"

namespace pleiad::kernel {

/// to += from.
void add(const Tensor& to, const Tensor& from);
void copy(const Tensor& to, const Tensor& from);
/// Copies `rows` pieces of `bytes` each, `from_stride` and `to_stride` bytes apart.
void copy_strided(void* to, std::size_t to_stride, const void* from, std::size_t from_stride, std::size_t bytes,
                  std::int64_t rows);

}  // namespace pleiad::kernel

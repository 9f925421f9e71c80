// Products whose operands are laid out first, by kernels of our own. OpenBLAS lays both operands out anew in every
// call, which for the few rows of a batch costs up to a quarter of the time: here a weight that meets many batches or
// steps is laid out once. An element's sum runs over k in one order, whatever the threads and the instruction set.
#pragma once

#include <cstdint>

#include "kernel/blas/gemm.h"

namespace pleiad::kernel {

/// From begin to end - 1.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// Columns of a panel of the right side: a cache line.
template <class T>
inline constexpr std::int64_t kPanel = 64 / static_cast<std::int64_t>(sizeof(T));
/// How many numbers a k x n matrix takes as a right side, in panels of any type.
[[nodiscard]] constexpr std::int64_t right_size(std::int64_t k, std::int64_t n) { return (n + 15) / 16 * 16 * k; }

/// Lays out `columns` of the k x n matrix b, in `to`, which is that of all columns: right_size(k, n), 64-byte aligned.
/// A range begins at a multiple of kPanel and ends at one or at n.
template <class T>
void lay_right(const Operand& b, std::int64_t k, std::int64_t n, Range columns, T* to);

/// Lays out an area of the m x k matrix a, in `to`, which is that of the whole: m * k numbers. Threads may lay out
/// areas that do not overlap at once.
template <class T>
void lay_left(const Operand& a, std::int64_t m, std::int64_t k, Range rows, Range columns, T* to);

/// c = alpha * left * right + beta * c in `columns` (as in lay_right), on the calling thread. c is that of all columns.
template <class T>
void multiply(const Product& p, const T* left, const T* right, Range columns, T* c, std::int64_t c_stride);

}  // namespace pleiad::kernel

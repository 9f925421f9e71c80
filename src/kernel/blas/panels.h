// Products of packed operands with Pleiad's own kernels. OpenBLAS packs both operands in every call, which takes up to
// a quarter of the time when a batch has few rows. Here a weight that is used for many batches or steps is packed once.
// The sum of an element runs over k in one order, independent of threads and instruction set.
#pragma once

#include <cstdint>

#include "kernel/blas/gemm.h"

namespace pleiad::kernel {

/// The half-open interval [begin, end).
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// Columns of a panel of the right operand: one cache line.
template <class T>
inline constexpr std::int64_t kPanel = 64 / static_cast<std::int64_t>(sizeof(T));
/// Returns the number of elements of a packed k x n right operand, for panels of any type.
[[nodiscard]] constexpr std::int64_t right_size(std::int64_t k, std::int64_t n) { return (n + 15) / 16 * 16 * k; }

/// Packs the columns `columns` of the k x n matrix b into `to`, which holds all columns: right_size(k, n) elements,
/// 64-byte aligned. The range must begin at a multiple of kPanel and end at a multiple of it or at n.
template <class T>
void pack_right(const Operand& b, std::int64_t k, std::int64_t n, Range columns, T* to);

/// Packs an area of the m x k matrix a into `to`, which holds the whole: m * k elements. Threads may pack areas
/// concurrently if they do not overlap.
template <class T>
void pack_left(const Operand& a, std::int64_t m, std::int64_t k, Range rows, Range columns, T* to);

/// Computes c = alpha * left * right + beta * c in `columns` (see pack_right) on the calling thread. c has all columns.
template <class T>
void multiply(const Product& p, const T* left, const T* right, Range columns, T* c, std::int64_t c_stride);

}  // namespace pleiad::kernel

// Products whose left side is zeros and ones, as samples of binary units are: sums of the rows that the ones pick. Four
// rows have sixteen sums; they are made once for all samples, which then add one number where a product multiplies four
// (the method of the four Russians): a third of the time.
#pragma once

#include <cstdint>

#include "kernel/blas/gemm.h"
#include "kernel/blas/panels.h"

namespace pleiad::kernel {

/// How many codes a row of k zeros and ones has: a byte each.
[[nodiscard]] constexpr std::int64_t code_size(std::int64_t k) { return (k + 3) / 4; }

/// The codes of `rows` of the m x k matrix a, in `codes`, which are those of all: m of the first four columns, m of the
/// next four. A number counts as one where it is not 0. Threads may make those of different rows at once.
template <class T>
void pick_codes(const T* a, std::int64_t m, std::int64_t k, Range rows, std::uint8_t* codes);

/// A matrix as it lies in memory, or as lay_right left it.
template <class T>
struct Rows {
  const T* data;
  std::int64_t stride;         ///< from one row to the next
  std::int64_t column_stride;  ///< data + c * column_stride is where column c begins, a multiple of kPanel
};
template <class T>
[[nodiscard]] Rows<T> plain_rows(const T* data, std::int64_t stride) {
  return {data, stride, 1};
}
template <class T>
[[nodiscard]] Rows<T> laid_rows(const T* right, std::int64_t k) {
  return {right, kPanel<T>, k};
}

/// c = a * b in `columns`, which begin at a multiple of kPanel and end at one or at n, on the calling thread. a is m x
/// k and given by its codes; b is k x n; c is that of all columns.
template <class T>
void add_picked(const Product& p, const std::uint8_t* codes, const Rows<T>& b, Range columns, T* c,
                std::int64_t c_stride);

}  // namespace pleiad::kernel

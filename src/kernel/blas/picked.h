// Products whose left operand consists of zeros and ones, like samples of binary units: sums of the rows that the ones
// select. Four rows have sixteen possible sums, which are computed once for all samples. Each sample then adds one
// value where a product multiplies four (the method of the four Russians), which takes a third of the time.
#pragma once

#include <cstdint>

#include "kernel/blas/gemm.h"
#include "kernel/blas/panels.h"

namespace pleiad::kernel {

/// Returns the number of codes of a row of k zeros and ones; each is a byte.
[[nodiscard]] constexpr std::int64_t code_size(std::int64_t k) { return (k + 3) / 4; }

/// Computes the codes of `rows` of the m x k matrix a. `codes` holds those of all rows: m codes of the first four
/// columns, then m of the next four. A value other than 0 counts as one. Threads may process different rows
/// concurrently.
template <class T>
void pick_codes(const T* a, std::int64_t m, std::int64_t k, Range rows, std::uint8_t* codes);

/// A matrix as stored, or as packed by pack_right.
template <class T>
struct Rows {
  const T* data;
  std::int64_t stride;         ///< elements between the starts of two rows
  std::int64_t column_stride;  ///< column c, a multiple of kPanel, starts at data + c * column_stride
};
template <class T>
[[nodiscard]] Rows<T> plain_rows(const T* data, std::int64_t stride) {
  return {data, stride, 1};
}
template <class T>
[[nodiscard]] Rows<T> packed_rows(const T* right, std::int64_t k) {
  return {right, kPanel<T>, k};
}

/// Computes c = a * b in `columns` on the calling thread. The range must begin at a multiple of kPanel and end at a
/// multiple of it or at n. a is m x k, given by its codes; b is k x n; c has all columns.
template <class T>
void add_picked(const Product& p, const std::uint8_t* codes, const Rows<T>& b, Range columns, T* c,
                std::int64_t c_stride);

}  // namespace pleiad::kernel

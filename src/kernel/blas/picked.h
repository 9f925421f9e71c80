// Products whose left side is zeros and ones, as samples of binary units are: sums of the rows that the ones pick. Four
// rows have sixteen sums; they are made once for all samples, which then add one number where a product multiplies four
// (the method of the four Russians): a third of the time.
#pragma once

#include <cstdint>

#include "kernel/blas/gemm.h"
#include "kernel/blas/panels.h"

namespace pleiad::kernel {

/// Bytes of the codes of one row of k zeros and ones.
[[nodiscard]] constexpr std::int64_t code_size(std::int64_t k) { return (k + 3) / 4; }

/// The codes of `rows` rows of k numbers each, row after row; a number counts as one where it is not 0.
template <class T>
void pick_codes(const T* from, std::int64_t rows, std::int64_t k, std::uint8_t* codes);

/// c = a * b in `columns`, which begin at a multiple of kPanel and end at one or at n, on the calling thread. a is m x
/// k and given by its codes; b is k x n, as it lies in memory; c is that of all columns.
template <class T>
void add_picked(const Product& p, const std::uint8_t* codes, const T* b, std::int64_t b_stride, Range columns, T* c,
                std::int64_t c_stride);

}  // namespace pleiad::kernel

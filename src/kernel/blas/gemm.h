// Matrix products by OpenBLAS, row after row, float32 and float64. OpenBLAS runs on one thread; the split is ours.
#pragma once

#include <cstdint>

#include "pleiad/dtype.h"

namespace pleiad::kernel {

struct Operand {
  const void* data = nullptr;
  std::int64_t stride = 0;  ///< from one row to the next as it lies in memory
  bool transposed = false;
};

struct Product {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  double alpha = 1;
  double beta = 0;
};

/// Loads OpenBLAS where nobody has yet; a StateError says why that failed. To be called before compute threads begin,
/// which cannot throw.
void need_gemm();

/// c = alpha * a * b + beta * c, where a is m x k and b is k x n after transposition; on the calling thread.
void gemm_here(DType dtype, const Product& p, const Operand& a, const Operand& b, void* c, std::int64_t c_stride);
/// The same, split over the compute threads.
void gemm(DType dtype, const Product& p, const Operand& a, const Operand& b, void* c, std::int64_t c_stride);

}  // namespace pleiad::kernel

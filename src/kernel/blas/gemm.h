// Matrix products with OpenBLAS, row-major, for float32 and float64. OpenBLAS runs on one thread; Pleiad splits the
// work.
#pragma once

#include <cstdint>

#include "pleiad/dtype.h"

namespace pleiad::kernel {

struct Operand {
  const void* data = nullptr;
  std::int64_t stride = 0;  ///< elements between the starts of two rows in memory
  bool transposed = false;
};

struct Product {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  double alpha = 1;
  double beta = 0;
};

/// Loads OpenBLAS if it is not loaded yet. Throws StateError with the reason if that fails. Call it before compute
/// threads start, because they cannot throw.
void need_gemm();

/// Computes c = alpha * a * b + beta * c on the calling thread. After transposition, a is m x k and b is k x n.
void gemm_here(DType dtype, const Product& p, const Operand& a, const Operand& b, void* c, std::int64_t c_stride);
/// Does the same, split over the compute threads.
void gemm(DType dtype, const Product& p, const Operand& a, const Operand& b, void* c, std::int64_t c_stride);

}  // namespace pleiad::kernel

// OpenBLAS, loaded when it is first needed.
#pragma once

#include <cblas.h>

namespace pleiad::kernel {

struct Blas {
  decltype(&cblas_sgemm) sgemm;
  decltype(&cblas_dgemm) dgemm;
};

/// Runs on the calling thread alone. A StateError where the library is not there.
///
/// It is loaded by hand because it chooses its kernels while it is loaded, and does not choose well everywhere: on
/// AMD's Zen 4 it takes those for Intel's 512-bit vectors, which are 5 to 8% slower there than the 256-bit ones. What
/// the user asks for by OPENBLAS_CORETYPE holds.
[[nodiscard]] const Blas& blas();

}  // namespace pleiad::kernel

// Loads OpenBLAS when it is first needed.
#pragma once

#include <cblas.h>

namespace pleiad::kernel {

struct Blas {
  decltype(&cblas_sgemm) sgemm;
  decltype(&cblas_dgemm) dgemm;
};

/// The functions run on the calling thread only. Throws StateError if the library cannot be loaded.
///
/// It is loaded with dlopen because it chooses its kernels while loading and does not choose well on all CPUs: on AMD's
/// Zen 4 it takes the kernels for Intel's 512-bit vectors, which are 5 to 8% slower there than the 256-bit ones.
/// OPENBLAS_CORETYPE overrides the choice.
[[nodiscard]] const Blas& blas();

}  // namespace pleiad::kernel

// Local response normalisation across neighbouring maps, channels last.
#pragma once

#include "pleiad/tensor.h"

namespace pleiad::kernel {

struct Lrn {
  std::int64_t size = 5;
  double alpha = 1;
  double beta = 0.75;
  double k = 1;
};

/// Computes y = x * s^-beta with s = k + alpha / size * (sum of x^2 over the maps c - (size - 1) / 2 to c + size / 2).
/// Stores s in `scale`.
void lrn_forward(const Lrn& l, const Tensor& x, const Tensor& y, const Tensor& scale);
void lrn_backward(const Lrn& l, const Tensor& x, const Tensor& y, const Tensor& scale, const Tensor& dy,
                  const Tensor& dx);

}  // namespace pleiad::kernel

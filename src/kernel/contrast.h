// Local contrast normalisation, channels last, with zeros around the image: by a Gaussian window over all maps, in two
// parts, and by a box over each map.
#pragma once

#include "pleiad/tensor.h"

namespace pleiad::kernel {

/// G is proportional to exp(-d^2 / 2 s^2) with s = sqrt(2 * (size / 2)^2) / 3, and sums to 1 over the window and all
/// maps. (batch, height, width, channels); size is odd.
struct GaussianWindow {
  std::int64_t size = 9;
};
/// v = x - the sum of G x: one map, taken from all channels. v may be x.
void subtract_mean(const GaussianWindow& g, const Tensor& x, const Tensor& v);
/// dx = the gradient by x; dx may be dv.
void subtract_mean_backward(const GaussianWindow& g, const Tensor& dv, const Tensor& dx);
/// y = v / norm, where norm (batch, height, width) is sqrt(the sum of G v^2), or 1 where that is 0.
void divide_by_norm(const GaussianWindow& g, const Tensor& v, const Tensor& y, const Tensor& norm);
/// dv may be dy.
void divide_by_norm_backward(const GaussianWindow& g, const Tensor& v, const Tensor& norm, const Tensor& dy,
                             const Tensor& dv);

/// y = x * s^-beta, s = 1 + alpha / size^2 * the sum over the window of d^2, d = x - the mean of the window around it;
/// windows are clipped to the image.
struct BoxContrast {
  std::int64_t size = 9;
  double alpha = 1;
  double beta = 0.5;
};
/// d and scale keep d and s for backward.
void box_contrast(const BoxContrast& c, const Tensor& x, const Tensor& y, const Tensor& d, const Tensor& scale);
/// dx is not dy.
void box_contrast_backward(const BoxContrast& c, const Tensor& x, const Tensor& d, const Tensor& scale,
                           const Tensor& dy, const Tensor& dx);

}  // namespace pleiad::kernel

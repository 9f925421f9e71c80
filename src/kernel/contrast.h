// Local contrast normalisation of channels-last images with zeros around them: by a Gaussian window over all maps, in
// two parts, and by a box over each map.
#pragma once

#include "pleiad/tensor.h"

namespace pleiad::kernel {

/// G is proportional to exp(-d^2 / 2 s^2) with s = sqrt(2 * (size / 2)^2) / 3, and sums to 1 over the window and all
/// maps. Images are (batch, height, width, channels); size is odd.
struct GaussianWindow {
  std::int64_t size = 9;
};
/// Computes v = x - sum of G x. The sum is one map over all channels, subtracted from each channel. v may be x.
void subtract_mean(const GaussianWindow& g, const Tensor& x, const Tensor& v);
/// Computes dx, the gradient by x. dx may be dv.
void subtract_mean_backward(const GaussianWindow& g, const Tensor& dv, const Tensor& dx);
/// Computes y = v / norm, where norm (batch, height, width) is sqrt(sum of G v^2), or 1 if that is 0.
void divide_by_norm(const GaussianWindow& g, const Tensor& v, const Tensor& y, const Tensor& norm);
/// Computes dv, the gradient by v. dv may be dy.
void divide_by_norm_backward(const GaussianWindow& g, const Tensor& v, const Tensor& norm, const Tensor& dy,
                             const Tensor& dv);

/// y = x * s^-beta with s = 1 + alpha / size^2 * (sum of d^2 over the window) and d = x - mean of x over the window.
/// Windows are clipped to the image.
struct BoxContrast {
  std::int64_t size = 9;
  double alpha = 1;
  double beta = 0.5;
};
/// Stores d and s in `d` and `scale` for backward.
void box_contrast(const BoxContrast& c, const Tensor& x, const Tensor& y, const Tensor& d, const Tensor& scale);
/// dx must not be dy.
void box_contrast_backward(const BoxContrast& c, const Tensor& x, const Tensor& d, const Tensor& scale,
                           const Tensor& dy, const Tensor& dx);

}  // namespace pleiad::kernel

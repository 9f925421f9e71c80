// Pooling over windows of each map, channels last.
#pragma once

#include "pleiad/interval.h"
#include "pleiad/tensor.h"

namespace pleiad::kernel {

struct Pool {
  bool max = true;
  bool l2 = false;  ///< sqrt(sum of x^2) in place of maximum and average
  SlidingWindow h;
  SlidingWindow w;
  bool count_padding = true;  ///< the average divides by the window clipped to the padded image, or to the image
};

/// x: (batch, height, width, channels).
void pool_forward(const Pool& p, const Tensor& x, const Tensor& y);
/// Of equal maxima the first one in the window has the gradient.
void pool_backward(const Pool& p, const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor& dx);

}  // namespace pleiad::kernel

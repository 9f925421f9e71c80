// Pooling over the windows of each map, channels last.
#pragma once

#include "pleiad/interval.h"
#include "pleiad/tensor.h"

namespace pleiad::kernel {

struct Pool {
  bool max = true;
  bool l2 = false;  ///< sqrt(sum of x^2) instead of maximum or average
  SlidingWindow h;
  SlidingWindow w;
  /// true: the average divides by the size of the window clipped to the padded image; false: clipped to the image
  bool count_padding = true;
};

/// x: (batch, height, width, channels).
void pool_forward(const Pool& p, const Tensor& x, const Tensor& y);
/// The first of several equal maxima in a window receives the gradient.
void pool_backward(const Pool& p, const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor& dx);

}  // namespace pleiad::kernel

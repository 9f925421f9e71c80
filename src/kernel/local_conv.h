// Local filtering: a convolution with separate filters for each output position. Images are channels last.
#pragma once

#include <vector>

#include "kernel/update.h"
#include "pleiad/interval.h"
#include "pleiad/tensor.h"

namespace pleiad::kernel {

/// weight: (out_h, out_w, maps, h.size, w.size, channels). There is no dilation.
struct LocalConv {
  std::int64_t batch = 0, in_h = 0, in_w = 0, channels = 0;
  std::int64_t out_h = 0, out_w = 0, maps = 0;
  SlidingWindow h;
  SlidingWindow w;
  [[nodiscard]] std::int64_t filter() const { return h.size * w.size * channels; }
};

/// Memory that is kept between steps, so that a step allocates nothing.
struct LocalConvMemory {
  std::vector<std::vector<std::byte>> thread;
};

/// Receives the weight gradient: passed to `update`, or stored. If both are empty, it is not computed.
struct LocalGradient {
  Tensor weight_gradient;
  BlockUpdate* update = nullptr;
};

/// Applies the filters to x. (batch, in_h, in_w, channels) -> (batch, out_h, out_w, maps).
void local_apply(const LocalConv& c, const Tensor& x, const Tensor& weight, const Tensor& y, LocalConvMemory& memory);
/// The transpose of local_apply: sets x to the sum over all positions of y times their filters, unless x is empty. The
/// weight gradient is that of sum(x_given * transposed(y)). With x_given = the input of the forward pass and y its
/// gradient, it is the weight gradient of local_apply. With x_given = the gradient by the output of a transposed layer
/// and y its input, it is the weight gradient of that layer. x is computed with the weight before its update.
void local_transposed(const LocalConv& c, const Tensor& y, const Tensor& weight, const Tensor& x, const Tensor& x_given,
                      const LocalGradient& to, LocalConvMemory& memory);

}  // namespace pleiad::kernel

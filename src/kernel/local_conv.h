// Local filtering: as a convolution, but with filters of its own for each output place. Images channels last.
#pragma once

#include <vector>

#include "kernel/update.h"
#include "pleiad/interval.h"
#include "pleiad/tensor.h"

namespace pleiad::kernel {

/// weight: (out_h, out_w, maps, h.size, w.size, channels); no dilation.
struct LocalConv {
  std::int64_t batch = 0, in_h = 0, in_w = 0, channels = 0;
  std::int64_t out_h = 0, out_w = 0, maps = 0;
  SlidingWindow h;
  SlidingWindow w;
  [[nodiscard]] std::int64_t filter() const { return h.size * w.size * channels; }
};

/// What is kept from step to step, so that a step allocates nothing.
struct LocalConvMemory {
  std::vector<std::vector<std::byte>> thread;
};

/// What becomes of the weight's gradient: handed to `update`, or written; neither: it is not made.
struct LocalGradient {
  Tensor weight_gradient;
  BlockUpdate* update = nullptr;
};

/// y = the filters over x. (batch, in_h, in_w, channels) -> (batch, out_h, out_w, maps).
void local_apply(const LocalConv& c, const Tensor& x, const Tensor& weight, const Tensor& y, LocalConvMemory& memory);
/// The other way round, x = the sum over all places of y times their filters; x is overwritten, unless it is empty. The
/// weight's gradient is that of sum(x_given * transposed(y)): with x_given = x of the forward pass and y its gradient
/// that of local_apply; with x_given = the gradient by a transposed layer's output and y its input, that of such a
/// layer. x is that of the weight before its update.
void local_transposed(const LocalConv& c, const Tensor& y, const Tensor& weight, const Tensor& x, const Tensor& x_given,
                      const LocalGradient& to, LocalConvMemory& memory);

}  // namespace pleiad::kernel

// Convolution of channels-last images. A plan is made once for given shapes: with oneDNN for float32, with plain loops
// for float64, which oneDNN 2.6 does not support.
#pragma once

#include <memory>

#include "kernel/activation.h"
#include "pleiad/interval.h"
#include "pleiad/tensor.h"

namespace pleiad::kernel {

struct Conv {
  std::int64_t batch = 0, in_h = 0, in_w = 0, in_c = 0;
  std::int64_t out_h = 0, out_w = 0, out_c = 0;
  std::int64_t groups = 1;
  SlidingWindow h;
  SlidingWindow w;
  bool bias = true;
  Activation activation;
};

/// x: (batch, in_h, in_w, in_c), weight: (out_c, h, w, in_c / groups), bias: (out_c), y: (batch, out_h, out_w, out_c).
class ConvPlan {
 public:
  virtual ~ConvPlan() = default;
  /// Computes y = f(conv(x) + bias).
  virtual void forward(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y) = 0;
  /// dy must already be multiplied by f'. Skips gradients whose tensors are empty.
  virtual void backward(const Tensor& x, const Tensor& weight, const Tensor& dy, const Tensor& dx,
                        const Tensor& weight_gradient, const Tensor& bias_gradient) = 0;
};

/// plan_conv picks the fastest implementation for the type. plan_conv_by_loops always uses the plain loops, the oracle
/// of tests.
[[nodiscard]] std::unique_ptr<ConvPlan> plan_conv(const Conv& conv, DType dtype);
[[nodiscard]] std::unique_ptr<ConvPlan> plan_conv_by_loops(const Conv& conv, DType dtype);
[[nodiscard]] std::unique_ptr<ConvPlan> plan_conv_by_dnn(const Conv& conv);

}  // namespace pleiad::kernel

// The fully connected layer, fused: bias and activation with the product, the update with the weight's gradient.
#pragma once

#include "kernel/activation.h"
#include "kernel/update.h"
#include "pleiad/tensor.h"

namespace pleiad::kernel {

struct Dense {
  std::int64_t batch = 0;
  std::int64_t in = 0;
  std::int64_t out = 0;
  bool transposed = false;  ///< the weight is in x out instead of out x in
  Activation activation;
  bool picks = false;  ///< x has zeros and ones alone; of forward
};

/// Whether `picks` holds of x.
[[nodiscard]] bool zeros_and_ones(const Tensor& x);

/// Lays a weight out for more than one dense_forward: `laid` has laid_size(d) numbers.
[[nodiscard]] std::int64_t laid_size(const Dense& d);
void lay_weight(const Dense& d, const Tensor& weight, const Tensor& laid);

/// y = f(x * weight^T + bias); an empty bias is none. `laid` is empty or what lay_weight made of the weight.
void dense_forward(const Dense& d, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y,
                   const Tensor& laid = {});

/// What backward leaves. An empty dx is not computed. The weight's gradient goes to `update` where there is one, and
/// then weight_gradient may be empty; dx is that of the weight before its update.
struct DenseGradients {
  Tensor dx;
  Tensor weight_gradient;
  Tensor bias_gradient;
  BlockUpdate* update = nullptr;
};
/// dy is overwritten.
void dense_backward(const Dense& d, const Tensor& x, const Tensor& weight, const Tensor& y, const Tensor& dy,
                    const DenseGradients& to);

}  // namespace pleiad::kernel

// The fully connected layer. Fuses bias and activation with the product, and the update with the weight gradient.
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
  bool picks = false;  ///< x contains only zeros and ones; used by forward
};

/// Returns true if x contains only zeros and ones, as Dense::picks requires.
[[nodiscard]] bool zeros_and_ones(const Tensor& x);

/// pack_weight packs a weight for repeated calls of dense_forward. `packed` must have packed_size(d) elements.
[[nodiscard]] std::int64_t packed_size(const Dense& d);
void pack_weight(const Dense& d, const Tensor& weight, const Tensor& packed);

/// Computes y = f(x * weight^T + bias). `bias` may be empty. `packed` is empty or the weight as packed by pack_weight.
void dense_forward(const Dense& d, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y,
                   const Tensor& packed = {});

/// The results of backward. An empty dx is not computed. If there is an `update`, it receives the weight gradient, and
/// weight_gradient may be empty. dx is computed with the weight before its update.
struct DenseGradients {
  Tensor dx;
  Tensor weight_gradient;
  Tensor bias_gradient;
  BlockUpdate* update = nullptr;
};
/// Overwrites dy.
void dense_backward(const Dense& d, const Tensor& x, const Tensor& weight, const Tensor& y, const Tensor& dy,
                    const DenseGradients& to);

}  // namespace pleiad::kernel

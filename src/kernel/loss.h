// Softmax and the losses: value, metric and gradient.
#pragma once

#include <cstdint>

#include "pleiad/tensor.h"

namespace pleiad::kernel {

/// Softmax over the last axis.
void softmax(const Tensor& x, const Tensor& y);
void softmax_backward(const Tensor& y, const Tensor& dy, const Tensor& dx);

/// Returns true if the score of `label` is among the k highest of n. Among equal scores, the first one counts as
/// higher. A NaN counts as higher than every other score, but a label whose own score is NaN is never among the
/// highest.
template <class T>
[[nodiscard]] bool among_top(const T* score, std::int64_t n, std::int64_t label, std::int64_t k) {
  const T own = score[label];
  if (own != own) return false;
  std::int64_t higher = 0;
  for (std::int64_t i = 0; i < n; ++i) higher += !(score[i] <= own) || (score[i] == own && i < label) ? 1 : 0;
  return higher < k;
}

/// Sets probability = softmax(score). Returns the mean of -log(probability of the label), and in `accuracy` the
/// fraction of samples whose label is among the top_k scores. Throws InvalidArgument that names the sample if a label
/// is out of range.
double softmax_loss(const Tensor& score, const Tensor& label, const Tensor& probability, std::int64_t top_k,
                    double& accuracy);
/// Computes dx = factor * (probability - one-hot label).
void softmax_loss_backward(const Tensor& probability, const Tensor& label, double factor, const Tensor& dx);

/// Returns the sum of -t log s(x) - (1 - t) log(1 - s(x)), where s is the sigmoid.
double sigmoid_loss(const Tensor& x, const Tensor& target);
/// Computes dx = factor * (s(x) - t).
void sigmoid_loss_backward(const Tensor& x, const Tensor& target, double factor, const Tensor& dx);

/// Returns the sum of (x - t)^2.
double squared_distance(const Tensor& x, const Tensor& target);
/// Computes dx = factor * (x - t).
void difference(const Tensor& x, const Tensor& target, double factor, const Tensor& dx);

}  // namespace pleiad::kernel

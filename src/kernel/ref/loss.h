// The losses by definition: value, metric and gradient by x.
#pragma once

#include <cmath>

#include "kernel/ref/activation.h"

namespace pleiad::kernel::ref {

struct LossResult {
  double loss = 0;
  double metric = 0;
};

/// Returns the mean of -log softmax(x)[label]. The metric is the fraction of labels among the top_k scores; equal
/// scores are ordered by class.
template <class T>
LossResult softmax_loss(const Tensor& x, const Tensor& label, std::int64_t top_k, const Tensor& dx) {
  const std::int64_t n = x.count() / x.shape()[0], rows = x.shape()[0];
  const Tensor p(x.dtype(), x.shape());
  softmax<T>(x, p);
  LossResult result;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t right = label.values<std::int32_t>()[static_cast<std::size_t>(r)];
    result.loss -= std::log(static_cast<double>(data<T>(p)[r * n + right])) / static_cast<double>(rows);
    std::int64_t before = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const T score = data<T>(x)[r * n + i], own = data<T>(x)[r * n + right];
      if (score > own || (score == own && i < right)) ++before;
      data<T>(dx)[r * n + i] = (data<T>(p)[r * n + i] - (i == right ? T(1) : T(0))) / static_cast<T>(rows);
    }
    if (before < top_k) result.metric += 1.0 / static_cast<double>(rows);
  }
  return result;
}

template <class T>
LossResult sigmoid_loss(const Tensor& x, const Tensor& target, const Tensor& dx) {
  LossResult result;
  const auto rows = static_cast<double>(x.shape()[0]);
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const double s = 1 / (1 + std::exp(-static_cast<double>(data<T>(x)[i]))), t = data<T>(target)[i];
    result.loss += (-t * std::log(s) - (1 - t) * std::log(1 - s)) / rows;
    data<T>(dx)[i] = static_cast<T>((s - t) / rows);
  }
  return result;
}

/// The metric is the whole squared distance.
template <class T>
LossResult euclidean_loss(const Tensor& x, const Tensor& target, const Tensor& dx) {
  LossResult result;
  const auto rows = static_cast<double>(x.shape()[0]);
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const double d = static_cast<double>(data<T>(x)[i]) - static_cast<double>(data<T>(target)[i]);
    result.metric += d * d / rows;
    data<T>(dx)[i] = static_cast<T>(d / rows);
  }
  result.loss = result.metric / 2;
  return result;
}

}  // namespace pleiad::kernel::ref

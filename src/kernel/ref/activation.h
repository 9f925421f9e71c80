// Activations by definition, with derivatives by x: the oracle of kernel/activation.h, which derives by y.
#pragma once

#include <cmath>

#include "kernel/activation.h"
#include "kernel/types.h"

namespace pleiad::kernel::ref {

template <class T>
T value(const Activation& f, T x) {
  switch (f.function) {
    case Function::linear: return x;
    case Function::relu: return x > 0 ? x : T(0);
    case Function::leaky: return x > 0 ? x : static_cast<T>(f.slope) * x;
    case Function::sigmoid: return 1 / (1 + std::exp(-x));
    case Function::tanh: return std::tanh(x);
    case Function::stanh: return static_cast<T>(1.7159047) * std::tanh(static_cast<T>(0.66666667) * x);
    case Function::softplus: return std::log(1 + std::exp(x));
  }
  return x;
}

template <class T>
T derivative(const Activation& f, T x) {
  switch (f.function) {
    case Function::linear: return 1;
    case Function::relu: return x > 0 ? T(1) : T(0);
    case Function::leaky: return x > 0 ? T(1) : static_cast<T>(f.slope);
    case Function::sigmoid: return 1 / ((1 + std::exp(-x)) * (1 + std::exp(x)));
    case Function::tanh: return 1 / (std::cosh(x) * std::cosh(x));
    case Function::stanh: {
      const T c = std::cosh(static_cast<T>(0.66666667) * x);
      return static_cast<T>(1.7159047 * 0.66666667) / (c * c);
    }
    case Function::softplus: return 1 / (1 + std::exp(-x));
  }
  return 1;
}

template <class T>
void activate(const Activation& f, const Tensor& x, const Tensor& y) {
  for (std::int64_t i = 0; i < x.count(); ++i) data<T>(y)[i] = value(f, data<T>(x)[i]);
}

template <class T>
void activate_backward(const Activation& f, const Tensor& x, const Tensor& dy, const Tensor& dx) {
  for (std::int64_t i = 0; i < x.count(); ++i) data<T>(dx)[i] = data<T>(dy)[i] * derivative(f, data<T>(x)[i]);
}

/// Softmax over the last axis, without the shift that keeps large scores finite.
template <class T>
void softmax(const Tensor& x, const Tensor& y) {
  const std::int64_t n = x.shape()[x.shape().rank() - 1];
  for (std::int64_t r = 0; r < x.count() / n; ++r) {
    T sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += std::exp(data<T>(x)[r * n + i]);
    for (std::int64_t i = 0; i < n; ++i) data<T>(y)[r * n + i] = std::exp(data<T>(x)[r * n + i]) / sum;
  }
}

/// Uses the whole Jacobian matrix.
template <class T>
void softmax_backward(const Tensor& y, const Tensor& dy, const Tensor& dx) {
  const std::int64_t n = y.shape()[y.shape().rank() - 1];
  for (std::int64_t r = 0; r < y.count() / n; ++r) {
    const T* p = data<T>(y) + r * n;
    for (std::int64_t i = 0; i < n; ++i) {
      T sum = 0;
      for (std::int64_t j = 0; j < n; ++j) sum += data<T>(dy)[r * n + j] * p[j] * ((i == j ? T(1) : T(0)) - p[i]);
      data<T>(dx)[r * n + i] = sum;
    }
  }
}

}  // namespace pleiad::kernel::ref

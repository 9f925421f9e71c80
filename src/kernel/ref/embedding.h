// Index layers and cross-map pooling by definition: the oracle of the fast kernels.
#pragma once

#include <vector>

#include "kernel/types.h"

namespace pleiad::kernel::ref {

/// Sets y[i] to row index[i] of the table: the product of a one-hot vector and the table.
template <class T>
void embed(const Tensor& index, const Tensor& table, const Tensor& y) {
  const std::int64_t words = table.shape()[0], width = table.shape()[1];
  for (std::int64_t i = 0; i < index.count(); ++i) {
    for (std::int64_t c = 0; c < width; ++c) {
      T sum = 0;
      for (std::int64_t w = 0; w < words; ++w) {
        if (data<std::int32_t>(index)[i] == w) sum += data<T>(table)[w * width + c];
      }
      data<T>(y)[i * width + c] = sum;
    }
  }
}

template <class T>
void embed_backward(const Tensor& index, const Tensor& dy, const Tensor& gradient) {
  const std::int64_t words = gradient.shape()[0], width = gradient.shape()[1];
  for (std::int64_t w = 0; w < words; ++w) {
    for (std::int64_t c = 0; c < width; ++c) {
      T sum = 0;
      for (std::int64_t i = 0; i < index.count(); ++i) {
        if (data<std::int32_t>(index)[i] == w) sum += data<T>(dy)[i * width + c];
      }
      data<T>(gradient)[w * width + c] = sum;
    }
  }
}

/// Sets y[i, w] to 1 if index[i] is w, else to 0.
template <class T>
void one_hot(const Tensor& index, std::int64_t words, const Tensor& y) {
  for (std::int64_t i = 0; i < index.count(); ++i) {
    for (std::int64_t w = 0; w < words; ++w) {
      data<T>(y)[i * words + w] = data<std::int32_t>(index)[i] == w ? T(1) : T(0);
    }
  }
}

/// Sets y[n, i, j, o] to the sum of weight[o, c] * x[n, i, j, c] over the maps c of the input.
template <class T>
void cross_map_pooling(const Tensor& x, const Tensor& weight, const Tensor& y) {
  const std::int64_t maps = x.shape()[3], out = weight.shape()[0];
  for (std::int64_t at = 0; at < x.count() / maps; ++at) {
    for (std::int64_t o = 0; o < out; ++o) {
      T sum = 0;
      for (std::int64_t c = 0; c < maps; ++c) sum += data<T>(weight)[o * maps + c] * data<T>(x)[at * maps + c];
      data<T>(y)[at * out + o] = sum;
    }
  }
}

template <class T>
void cross_map_pooling_backward(const Tensor& x, const Tensor& weight, const Tensor& dy, const Tensor& dx,
                                const Tensor& dw) {
  const std::int64_t maps = x.shape()[3], out = weight.shape()[0];
  dx.fill(0);
  dw.fill(0);
  for (std::int64_t at = 0; at < x.count() / maps; ++at) {
    for (std::int64_t o = 0; o < out; ++o) {
      for (std::int64_t c = 0; c < maps; ++c) {
        data<T>(dx)[at * maps + c] += data<T>(dy)[at * out + o] * data<T>(weight)[o * maps + c];
        data<T>(dw)[o * maps + c] += data<T>(dy)[at * out + o] * data<T>(x)[at * maps + c];
      }
    }
  }
}

}  // namespace pleiad::kernel::ref

// Dense, convolution, pooling, LRN and batch normalisation by definition: the oracle of the fast kernels. Nothing is
// fused, split or reordered.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernel/conv.h"
#include "kernel/dense.h"
#include "kernel/lrn.h"
#include "kernel/pool.h"
#include "kernel/ref/activation.h"

namespace pleiad::kernel::ref {

/// Returns x * weight^T + bias, before the activation.
template <class T>
std::vector<T> dense_sums(const Dense& d, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  std::vector<T> z(static_cast<std::size_t>(d.batch * d.out));
  for (std::int64_t n = 0; n < d.batch; ++n) {
    for (std::int64_t o = 0; o < d.out; ++o) {
      T sum = bias.empty() ? T(0) : data<T>(bias)[o];
      for (std::int64_t i = 0; i < d.in; ++i) {
        sum += data<T>(x)[n * d.in + i] * data<T>(weight)[d.transposed ? i * d.out + o : o * d.in + i];
      }
      z[static_cast<std::size_t>(n * d.out + o)] = sum;
    }
  }
  return z;
}

template <class T>
void dense_forward(const Dense& d, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y) {
  const std::vector<T> z = dense_sums<T>(d, x, weight, bias);
  for (std::size_t i = 0; i < z.size(); ++i) data<T>(y)[i] = value(d.activation, z[i]);
}

template <class T>
void dense_backward(const Dense& d, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& dy,
                    const Tensor& dx, const Tensor& dw, const Tensor& db) {
  const std::vector<T> z = dense_sums<T>(d, x, weight, bias);
  dx.fill(0);
  dw.fill(0);
  if (!db.empty()) db.fill(0);
  for (std::int64_t n = 0; n < d.batch; ++n) {
    for (std::int64_t o = 0; o < d.out; ++o) {
      const T dz = data<T>(dy)[n * d.out + o] * derivative(d.activation, z[static_cast<std::size_t>(n * d.out + o)]);
      if (!db.empty()) data<T>(db)[o] += dz;
      for (std::int64_t i = 0; i < d.in; ++i) {
        const std::int64_t at = d.transposed ? i * d.out + o : o * d.in + i;
        data<T>(dx)[n * d.in + i] += dz * data<T>(weight)[at];
        data<T>(dw)[at] += dz * data<T>(x)[n * d.in + i];
      }
    }
  }
}

/// Calls tap(output, input, weight) for every product of a convolution.
template <class Tap>
void each_product(const Conv& c, Tap&& tap) {
  const std::int64_t in = c.in_c / c.groups;
  for (std::int64_t n = 0; n < c.batch; ++n) {
    for (std::int64_t i = 0; i < c.out_h; ++i) {
      for (std::int64_t j = 0; j < c.out_w; ++j) {
        for (std::int64_t o = 0; o < c.out_c; ++o) {
          for (std::int64_t u = 0; u < c.h.size; ++u) {
            for (std::int64_t v = 0; v < c.w.size; ++v) {
              const std::int64_t row = i * c.h.stride - c.h.pad_begin + u * c.h.dilation;
              const std::int64_t column = j * c.w.stride - c.w.pad_begin + v * c.w.dilation;
              if (row < 0 || row >= c.in_h || column < 0 || column >= c.in_w) continue;
              for (std::int64_t k = 0; k < in; ++k) {
                const std::int64_t channel = o / (c.out_c / c.groups) * in + k;
                tap(((n * c.out_h + i) * c.out_w + j) * c.out_c + o,
                    ((n * c.in_h + row) * c.in_w + column) * c.in_c + channel,
                    ((o * c.h.size + u) * c.w.size + v) * in + k);
              }
            }
          }
        }
      }
    }
  }
}

template <class T>
std::vector<T> conv_sums(const Conv& c, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  std::vector<T> z(static_cast<std::size_t>(c.batch * c.out_h * c.out_w * c.out_c));
  for (std::size_t i = 0; c.bias && i < z.size(); ++i) z[i] = data<T>(bias)[i % static_cast<std::size_t>(c.out_c)];
  each_product(c, [&](std::int64_t out, std::int64_t in, std::int64_t w) {
    z[static_cast<std::size_t>(out)] += data<T>(x)[in] * data<T>(weight)[w];
  });
  return z;
}

template <class T>
void conv_forward(const Conv& c, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y) {
  const std::vector<T> z = conv_sums<T>(c, x, weight, bias);
  for (std::size_t i = 0; i < z.size(); ++i) data<T>(y)[i] = value(c.activation, z[i]);
}

template <class T>
void conv_backward(const Conv& c, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& dy,
                   const Tensor& dx, const Tensor& dw, const Tensor& db) {
  std::vector<T> dz = conv_sums<T>(c, x, weight, bias);
  for (std::size_t i = 0; i < dz.size(); ++i) dz[i] = data<T>(dy)[i] * derivative(c.activation, dz[i]);
  dx.fill(0);
  dw.fill(0);
  if (c.bias) db.fill(0);
  each_product(c, [&](std::int64_t out, std::int64_t in, std::int64_t w) {
    data<T>(dx)[in] += dz[static_cast<std::size_t>(out)] * data<T>(weight)[w];
    data<T>(dw)[w] += dz[static_cast<std::size_t>(out)] * data<T>(x)[in];
  });
  for (std::size_t i = 0; c.bias && i < dz.size(); ++i) data<T>(db)[i % static_cast<std::size_t>(c.out_c)] += dz[i];
}

/// Calls window(output, divisor, inputs in the order of rows and columns) for every output of a pooling.
template <class Each>
void each_window(const Pool& p, const Tensor& x, const Tensor& y, Each&& window) {
  const Shape &in = x.shape(), &out = y.shape();
  for (std::int64_t at = 0; at < y.count(); ++at) {
    const std::int64_t c = at % out[3], j = at / out[3] % out[2], i = at / (out[3] * out[2]) % out[1];
    const std::int64_t n = at / (out[3] * out[2] * out[1]);
    std::vector<std::int64_t> inside;
    std::int64_t padded = 0;
    for (std::int64_t u = 0; u < p.h.size; ++u) {
      for (std::int64_t v = 0; v < p.w.size; ++v) {
        const std::int64_t row = i * p.h.stride - p.h.pad_begin + u;
        const std::int64_t column = j * p.w.stride - p.w.pad_begin + v;
        if (row < in[1] + p.h.pad_end && column < in[2] + p.w.pad_end) ++padded;
        if (row < 0 || row >= in[1] || column < 0 || column >= in[2]) continue;
        inside.push_back(((n * in[1] + row) * in[2] + column) * in[3] + c);
      }
    }
    const auto count = static_cast<std::int64_t>(inside.size());
    window(at, std::max<std::int64_t>(p.count_padding ? padded : count, 1), inside);
  }
}

template <class T>
void pool_forward(const Pool& p, const Tensor& x, const Tensor& y) {
  each_window(p, x, y, [&](std::int64_t at, std::int64_t divisor, const std::vector<std::int64_t>& inside) {
    T result = 0;
    for (std::size_t k = 0; k < inside.size(); ++k) {
      const T v = data<T>(x)[inside[k]];
      if (p.l2) {
        result += v * v;
        continue;
      }
      result = p.max ? (k == 0 ? v : std::max(result, v)) : result + v / static_cast<T>(divisor);
    }
    data<T>(y)[at] = p.l2 ? std::sqrt(result) : result;
  });
}

template <class T>
void pool_backward(const Pool& p, const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor& dx) {
  dx.fill(0);
  each_window(p, x, y, [&](std::int64_t at, std::int64_t divisor, const std::vector<std::int64_t>& inside) {
    const T d = data<T>(dy)[at];
    if (p.l2) {
      const T norm = data<T>(y)[at] == 0 ? T(1) : data<T>(y)[at];
      for (const std::int64_t i : inside) data<T>(dx)[i] += d * data<T>(x)[i] / norm;
      return;
    }
    if (p.max) {
      const auto top =
          std::ranges::max_element(inside, {}, [&](std::int64_t i) { return data<T>(x)[i]; });  // the first
      if (top != inside.end()) data<T>(dx)[*top] += d;
      return;
    }
    for (const std::int64_t i : inside) data<T>(dx)[i] += d / static_cast<T>(divisor);
  });
}

/// Returns s of kernel/lrn.h for each element.
template <class T>
std::vector<T> lrn_scale(const Lrn& l, const Tensor& x) {
  const std::int64_t maps = x.shape()[x.shape().rank() - 1];
  std::vector<T> s(static_cast<std::size_t>(x.count()), static_cast<T>(l.k));
  for (std::int64_t i = 0; i < x.count(); ++i) {
    for (std::int64_t c = i % maps - (l.size - 1) / 2; c <= i % maps + l.size / 2; ++c) {
      if (c < 0 || c >= maps) continue;
      const T v = data<T>(x)[i - i % maps + c];
      s[static_cast<std::size_t>(i)] += static_cast<T>(l.alpha / static_cast<double>(l.size)) * v * v;
    }
  }
  return s;
}

template <class T>
void lrn_forward(const Lrn& l, const Tensor& x, const Tensor& y) {
  const std::vector<T> s = lrn_scale<T>(l, x);
  for (std::size_t i = 0; i < s.size(); ++i) data<T>(y)[i] = data<T>(x)[i] * std::pow(s[i], static_cast<T>(-l.beta));
}

/// dy[i] contributes to dx[j] through the factor in y[i] and through s[i].
template <class T>
void lrn_backward(const Lrn& l, const Tensor& x, const Tensor& dy, const Tensor& dx) {
  const std::int64_t maps = x.shape()[x.shape().rank() - 1];
  const std::vector<T> s = lrn_scale<T>(l, x);
  dx.fill(0);
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const T scale = s[static_cast<std::size_t>(i)];
    const T d = data<T>(dy)[i];
    data<T>(dx)[i] += d * std::pow(scale, static_cast<T>(-l.beta));
    for (std::int64_t c = i % maps - (l.size - 1) / 2; c <= i % maps + l.size / 2; ++c) {
      if (c < 0 || c >= maps) continue;
      const std::int64_t j = i - i % maps + c;
      data<T>(dx)[j] -= d * data<T>(x)[i] * static_cast<T>(l.beta) * std::pow(scale, static_cast<T>(-l.beta - 1)) * 2 *
                        static_cast<T>(l.alpha / static_cast<double>(l.size)) * data<T>(x)[j];
    }
  }
}

/// Batch normalisation in training: mean and variance are those of the batch. The gradient of each column goes through
/// both.
template <class T>
void batch_norm(const Tensor& x, double epsilon, const Tensor& scale, const Tensor& shift, const Tensor& y,
                const Tensor& mean, const Tensor& variance, const Tensor& dy, const Tensor& dx, const Tensor& dscale,
                const Tensor& dshift) {
  const std::int64_t columns = scale.count(), rows = x.count() / columns;
  const auto n = static_cast<T>(rows);
  for (std::int64_t c = 0; c < columns; ++c) {
    T m = 0, v = 0;
    for (std::int64_t r = 0; r < rows; ++r) m += data<T>(x)[r * columns + c] / n;
    for (std::int64_t r = 0; r < rows; ++r) v += std::pow(data<T>(x)[r * columns + c] - m, T(2)) / n;
    data<T>(mean)[c] = m;
    data<T>(variance)[c] = v;
    const T deviation = std::sqrt(v + static_cast<T>(epsilon));
    T sum = 0, weighted = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t at = r * columns + c;
      const T unit = (data<T>(x)[at] - m) / deviation;
      data<T>(y)[at] = unit * data<T>(scale)[c] + data<T>(shift)[c];
      sum += data<T>(dy)[at];
      weighted += data<T>(dy)[at] * unit;
    }
    data<T>(dshift)[c] = sum;
    data<T>(dscale)[c] = weighted;
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t at = r * columns + c;
      const T unit = (data<T>(x)[at] - m) / deviation;
      data<T>(dx)[at] = data<T>(scale)[c] / deviation * (data<T>(dy)[at] - sum / n - unit * weighted / n);
    }
  }
}

}  // namespace pleiad::kernel::ref

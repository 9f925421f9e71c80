#include "kernel/lrn.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/clones.h"
#include "core/threads.h"
#include "kernel/types.h"

namespace pleiad::kernel {
namespace {

/// Returns s^-beta. Avoids pow if beta is 3/4, 1/2 or 1, so that loops vectorise.
template <class T, int kBeta4>
PLEIAD_INLINE T power(T s, T beta) {
  if constexpr (kBeta4 == 2) return 1 / std::sqrt(s);
  if constexpr (kBeta4 == 3) {
    const T root = std::sqrt(s);
    return 1 / (root * std::sqrt(root));
  }
  if constexpr (kBeta4 == 4) return 1 / s;
  return std::pow(s, -beta);
}

/// Arguments for the channels of one position. The scratch has zeros on both sides, so the sums need no border cases.
template <class T>
struct LrnLoop {
  const T* x;
  const T* y;
  const T* dy;
  T* scale;
  T* out;
  T* padded;  // channels + size - 1 elements
  std::int64_t channels, size, before;
  T factor, k, beta;
};

template <class T, int kBeta4>
PLEIAD_INLINE void forward_place(const LrnLoop<T>& j) {
  T* __restrict padded = j.padded;
  T* __restrict scale = j.scale;
  T* __restrict out = j.out;
  for (std::int64_t c = 0; c < j.channels; ++c) padded[j.before + c] = j.x[c] * j.x[c];
  for (std::int64_t c = 0; c < j.channels; ++c) scale[c] = padded[c];
  for (std::int64_t i = 1; i < j.size; ++i) {
    for (std::int64_t c = 0; c < j.channels; ++c) scale[c] += padded[c + i];
  }
  for (std::int64_t c = 0; c < j.channels; ++c) {
    const T s = j.k + j.factor * scale[c];
    scale[c] = s;
    out[c] = j.x[c] * power<T, kBeta4>(s, j.beta);
  }
}

// dx[c] = dy[c] * s[c]^-beta - 2 * factor * beta * x[c] * sum of dy * y / s over the maps whose window contains c.
template <class T, int kBeta4>
PLEIAD_INLINE void backward_place(const LrnLoop<T>& j) {
  T* __restrict padded = j.padded;
  T* __restrict out = j.out;
  const T* __restrict scale = j.scale;
  const std::int64_t after = j.size - 1 - j.before;
  for (std::int64_t c = 0; c < j.channels; ++c) padded[after + c] = j.dy[c] * j.y[c] / scale[c];
  for (std::int64_t c = 0; c < j.channels; ++c) out[c] = padded[c];
  for (std::int64_t i = 1; i < j.size; ++i) {
    for (std::int64_t c = 0; c < j.channels; ++c) out[c] += padded[c + i];
  }
  const T all = 2 * j.factor * j.beta;
  for (std::int64_t c = 0; c < j.channels; ++c) {
    out[c] = j.dy[c] * power<T, kBeta4>(scale[c], j.beta) - all * j.x[c] * out[c];
  }
}

#define PLEIAD_LRN(T, B)                                                          \
  PLEIAD_CLONES void forward_##B(const LrnLoop<T>& j) { forward_place<T, B>(j); } \
  PLEIAD_CLONES void backward_##B(const LrnLoop<T>& j) { backward_place<T, B>(j); }
PLEIAD_LRN(float, 0)
PLEIAD_LRN(float, 2)
PLEIAD_LRN(float, 3)
PLEIAD_LRN(float, 4)
PLEIAD_LRN(double, 0)
PLEIAD_LRN(double, 2)
PLEIAD_LRN(double, 3)
PLEIAD_LRN(double, 4)

template <class T>
using Kernel = void (*)(const LrnLoop<T>&);
template <class T>
Kernel<T> pick(double beta, bool back) {
  const auto one_of = [&](Kernel<T> forward, Kernel<T> backward) { return back ? backward : forward; };
  if (beta == 0.5) return one_of(forward_2, backward_2);
  if (beta == 0.75) return one_of(forward_3, backward_3);
  if (beta == 1) return one_of(forward_4, backward_4);
  return one_of(forward_0, backward_0);
}

void run(const Lrn& l, bool back, const Tensor& x, const Tensor& y, const Tensor& scale, const Tensor& dy,
         const Tensor& out) {
  const std::int64_t channels = x.shape()[x.shape().rank() - 1];
  by_type(x.dtype(), [&]<class T>(T) {
    const Kernel<T> kernel = pick<T>(l.beta, back);
    parallel_for(x.count() / channels, 64, [&](std::int64_t first, std::int64_t last) {
      thread_local std::vector<T> padded;
      padded.assign(static_cast<std::size_t>(channels + l.size - 1), T(0));
      for (std::int64_t place = first; place < last; ++place) {
        const std::int64_t at = place * channels;
        kernel({.x = data<T>(x) + at,
                .y = back ? data<T>(y) + at : nullptr,
                .dy = back ? data<T>(dy) + at : nullptr,
                .scale = data<T>(scale) + at,
                .out = data<T>(out) + at,
                .padded = padded.data(),
                .channels = channels,
                .size = l.size,
                .before = (l.size - 1) / 2,
                .factor = static_cast<T>(l.alpha / static_cast<double>(l.size)),
                .k = static_cast<T>(l.k),
                .beta = static_cast<T>(l.beta)});
      }
    });
  });
}

}  // namespace

void lrn_forward(const Lrn& l, const Tensor& x, const Tensor& y, const Tensor& scale) {
  run(l, false, x, {}, scale, {}, y);
}

void lrn_backward(const Lrn& l, const Tensor& x, const Tensor& y, const Tensor& scale, const Tensor& dy,
                  const Tensor& dx) {
  run(l, true, x, y, scale, dy, dx);
}

}  // namespace pleiad::kernel

#include "kernel/pool.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/clones.h"
#include "core/threads.h"
#include "kernel/types.h"

namespace pleiad::kernel {
namespace {

// Arguments of the innermost loops, which run over the contiguous channels of one position.
template <class T>
struct PoolLoop {
  const T* x;
  const T* y;
  const T* dy;
  T* out;
  T* left;  // the part of the gradient that has not found its maximum yet
  std::int64_t channels;
  T factor;
};

template <class T>
PLEIAD_INLINE void max_into(const PoolLoop<T>& p) {
  T* __restrict out = p.out;
  // This form keeps NaN.
  for (std::int64_t c = 0; c < p.channels; ++c) out[c] = out[c] >= p.x[c] || out[c] != out[c] ? out[c] : p.x[c];
}
template <class T>
PLEIAD_INLINE void add_into(const PoolLoop<T>& p) {
  T* __restrict out = p.out;
  for (std::int64_t c = 0; c < p.channels; ++c) out[c] += p.x[c];
}
template <class T>
PLEIAD_INLINE void add_square(const PoolLoop<T>& p) {
  T* __restrict out = p.out;
  for (std::int64_t c = 0; c < p.channels; ++c) out[c] += p.x[c] * p.x[c];
}
template <class T>
PLEIAD_INLINE void root(const PoolLoop<T>& p) {
  T* __restrict out = p.out;
  for (std::int64_t c = 0; c < p.channels; ++c) out[c] = std::sqrt(out[c]);
}
/// Computes left = dy / y; a norm of 0 counts as 1.
template <class T>
PLEIAD_INLINE void by_norm(const PoolLoop<T>& p) {
  T* __restrict left = p.left;
  for (std::int64_t c = 0; c < p.channels; ++c) left[c] = p.dy[c] / (p.y[c] == 0 ? T(1) : p.y[c]);
}
template <class T>
PLEIAD_INLINE void give_norm(const PoolLoop<T>& p) {
  T* __restrict out = p.out;
  for (std::int64_t c = 0; c < p.channels; ++c) out[c] += p.left[c] * p.x[c];
}
template <class T>
PLEIAD_INLINE void scale(const PoolLoop<T>& p) {
  T* __restrict out = p.out;
  for (std::int64_t c = 0; c < p.channels; ++c) out[c] *= p.factor;
}
template <class T>
PLEIAD_INLINE void add_scaled(const PoolLoop<T>& p) {
  T* __restrict out = p.out;
  for (std::int64_t c = 0; c < p.channels; ++c) out[c] += p.factor * p.dy[c];
}
template <class T>
PLEIAD_INLINE void give_maximum(const PoolLoop<T>& p) {
  T* __restrict out = p.out;
  T* __restrict left = p.left;
  for (std::int64_t c = 0; c < p.channels; ++c) {
    const bool here = p.x[c] == p.y[c];
    out[c] += here ? left[c] : T(0);
    left[c] = here ? T(0) : left[c];
  }
}

#define PLEIAD_PLACE(name)                                             \
  PLEIAD_CLONES void run_##name(const PoolLoop<float>& p) { name(p); } \
  PLEIAD_CLONES void run_##name(const PoolLoop<double>& p) { name(p); }
PLEIAD_PLACE(max_into)
PLEIAD_PLACE(add_into)
PLEIAD_PLACE(add_square)
PLEIAD_PLACE(root)
PLEIAD_PLACE(by_norm)
PLEIAD_PLACE(give_norm)
PLEIAD_PLACE(scale)
PLEIAD_PLACE(add_scaled)
PLEIAD_PLACE(give_maximum)

/// The window of one output along one axis: the part inside the image, and the length that the average divides by.
struct Span {
  std::int64_t begin;
  std::int64_t end;
  std::int64_t divisor;
};

Span span_of(const SlidingWindow& window, std::int64_t out, std::int64_t length, bool count_padding) {
  const std::int64_t begin = out * window.stride - window.pad_begin;
  const std::int64_t end = begin + window.size;
  const Span inside{std::max<std::int64_t>(begin, 0), std::min(end, length), 0};
  const std::int64_t padded = std::min(end, length + window.pad_end) - begin;
  return {inside.begin, inside.end, count_padding ? padded : inside.end - inside.begin};
}

struct Sizes {
  std::int64_t batch, h, w, channels, out_h, out_w;
};
/// Returns the minimum number of items of `elements` outputs per thread; fewer do not pay.
std::int64_t grain_of(const Pool& p, std::int64_t elements) {
  constexpr std::int64_t kWork = 32768;
  return std::max<std::int64_t>(1, kWork / std::max<std::int64_t>(elements * p.h.size * p.w.size, 1));
}

Sizes sizes_of(const Tensor& x, const Tensor& y) {
  return {x.shape()[0], x.shape()[1], x.shape()[2], x.shape()[3], y.shape()[1], y.shape()[2]};
}

template <class T>
void forward_rows(const Pool& p, const Sizes& s, const T* x, T* y, std::int64_t first, std::int64_t last) {
  for (std::int64_t row = first; row < last; ++row) {  // rows of the outputs of all images
    const std::int64_t image = row / s.out_h;
    const Span v = span_of(p.h, row % s.out_h, s.h, p.count_padding);
    for (std::int64_t ow = 0; ow < s.out_w; ++ow) {
      const Span u = span_of(p.w, ow, s.w, p.count_padding);
      T* out = y + (row * s.out_w + ow) * s.channels;
      bool begun = false;
      for (std::int64_t i = v.begin; i < v.end; ++i) {
        for (std::int64_t j = u.begin; j < u.end; ++j) {
          const T* in = x + ((image * s.h + i) * s.w + j) * s.channels;
          if (!begun) {
            p.l2 ? std::fill_n(out, s.channels, T(0)) : std::copy_n(in, s.channels, out);
            begun = true;
            if (!p.l2) continue;
          }
          const PoolLoop<T> place{in, nullptr, nullptr, out, nullptr, s.channels, 1};
          if (p.l2) {
            run_add_square(place);
            continue;
          }
          p.max ? run_max_into(place) : run_add_into(place);
        }
      }
      if (!begun) std::fill_n(out, s.channels, T(0));  // the window covers only padding
      if (p.l2) {
        run_root({nullptr, nullptr, nullptr, out, nullptr, s.channels, 1});
      } else if (!p.max) {
        const T factor = 1 / static_cast<T>(std::max<std::int64_t>(v.divisor * u.divisor, 1));
        run_scale({nullptr, nullptr, nullptr, out, nullptr, s.channels, factor});
      }
    }
  }
}

template <class T>
void backward_image(const Pool& p, const Sizes& s, const T* x, const T* y, const T* dy, T* dx) {
  thread_local std::vector<T> left;
  left.resize(static_cast<std::size_t>(s.channels));
  std::fill_n(dx, s.h * s.w * s.channels, T(0));
  for (std::int64_t oh = 0; oh < s.out_h; ++oh) {
    const Span v = span_of(p.h, oh, s.h, p.count_padding);
    for (std::int64_t ow = 0; ow < s.out_w; ++ow) {
      const Span u = span_of(p.w, ow, s.w, p.count_padding);
      const std::int64_t at = (oh * s.out_w + ow) * s.channels;
      const T factor = 1 / static_cast<T>(std::max<std::int64_t>(v.divisor * u.divisor, 1));
      if (p.l2) {
        run_by_norm({nullptr, y + at, dy + at, nullptr, left.data(), s.channels, 1});
      } else if (p.max) {
        std::copy_n(dy + at, s.channels, left.data());
      }
      for (std::int64_t i = v.begin; i < v.end; ++i) {
        for (std::int64_t j = u.begin; j < u.end; ++j) {
          const std::int64_t in = (i * s.w + j) * s.channels;
          const PoolLoop<T> place{x + in, y + at, dy + at, dx + in, left.data(), s.channels, factor};
          if (p.l2) {
            run_give_norm(place);
            continue;
          }
          p.max ? run_give_maximum(place) : run_add_scaled(place);
        }
      }
    }
  }
}

}  // namespace

void pool_forward(const Pool& p, const Tensor& x, const Tensor& y) {
  const Sizes s = sizes_of(x, y);
  by_type(x.dtype(), [&]<class T>(T) {
    parallel_for(s.batch * s.out_h, grain_of(p, s.out_w * s.channels), [&](std::int64_t first, std::int64_t last) {
      forward_rows(p, s, data<T>(x), data<T>(y), first, last);
    });
  });
}

void pool_backward(const Pool& p, const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor& dx) {
  const Sizes s = sizes_of(x, y);
  const std::int64_t in = s.h * s.w * s.channels;
  const std::int64_t out = s.out_h * s.out_w * s.channels;
  by_type(x.dtype(), [&]<class T>(T) {
    parallel_for(s.batch, grain_of(p, out), [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t n = first; n < last; ++n) {
        backward_image(p, s, data<T>(x) + n * in, data<T>(y) + n * out, data<T>(dy) + n * out, data<T>(dx) + n * in);
      }
    });
  });
}

}  // namespace pleiad::kernel

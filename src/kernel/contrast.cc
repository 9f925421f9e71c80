#include "kernel/contrast.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/clones.h"
#include "core/threads.h"
#include "kernel/types.h"

namespace pleiad::kernel {
namespace {

struct Image {
  std::int64_t h, w, c;
  [[nodiscard]] std::int64_t places() const { return h * w; }
  [[nodiscard]] std::int64_t count() const { return h * w * c; }
};
Image image_of(const Tensor& x) { return {x.shape()[1], x.shape()[2], x.shape()[3]}; }

/// Calls body(image index) for each image of a batch.
template <class Body>
void each_image(const Tensor& x, Body&& body) {
  parallel_for(x.shape()[0], 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t n = first; n < last; ++n) body(n);
  });
}

/// Returns the factor of the separable Gaussian along one axis. The product over both axes sums to 1 / maps.
template <class T>
std::vector<T> gaussian_side(std::int64_t size, std::int64_t maps) {
  const std::int64_t radius = size / 2;
  const double sigma = std::sqrt(2.0 * static_cast<double>(radius * radius)) / 3;
  std::vector<double> side;
  double sum = 0;
  for (std::int64_t d = -radius; d <= radius; ++d) {
    side.push_back(radius == 0 ? 1 : std::exp(-static_cast<double>(d * d) / (2 * sigma * sigma)));
    sum += side.back();
  }
  std::vector<T> out;
  for (const double s : side) out.push_back(static_cast<T>(s / sum / std::sqrt(static_cast<double>(maps))));
  return out;
}

/// Filters one map along both axes. The filter is symmetric, so it is its own transpose.
template <class T>
void filter_map(const Image& im, const std::vector<T>& side, const T* from, T* between, T* to) {
  const auto radius = static_cast<std::int64_t>(side.size() / 2);
  for (std::int64_t i = 0; i < im.h; ++i) {
    for (std::int64_t j = 0; j < im.w; ++j) {
      T sum = 0;
      for (std::int64_t u = std::max<std::int64_t>(0, j - radius); u <= std::min(im.w - 1, j + radius); ++u) {
        sum += side[static_cast<std::size_t>(u - j + radius)] * from[i * im.w + u];
      }
      between[i * im.w + j] = sum;
    }
  }
  for (std::int64_t i = 0; i < im.h; ++i) {
    std::fill_n(to + i * im.w, im.w, T(0));
    for (std::int64_t u = std::max<std::int64_t>(0, i - radius); u <= std::min(im.h - 1, i + radius); ++u) {
      const T weight = side[static_cast<std::size_t>(u - i + radius)];
      for (std::int64_t j = 0; j < im.w; ++j) to[i * im.w + j] += weight * between[u * im.w + j];
    }
  }
}

/// Arguments of loops over the channels of all positions. Each loop uses some of the members.
template <class T>
struct ContrastLoop {
  const T* a;
  const T* b;
  T* out;
  T* map;  // one value per position
  const T* given;
  std::int64_t places, channels;
};
template <class T>
PLEIAD_INLINE void sum_channels(const ContrastLoop<T>& p) {
  for (std::int64_t i = 0; i < p.places; ++i) {
    T sum = 0;
    for (std::int64_t c = 0; c < p.channels; ++c) sum += p.a[i * p.channels + c];
    p.map[i] = sum;
  }
}
template <class T>
PLEIAD_INLINE void sum_products(const ContrastLoop<T>& p) {
  for (std::int64_t i = 0; i < p.places; ++i) {
    T sum = 0;
    for (std::int64_t c = 0; c < p.channels; ++c) sum += p.a[i * p.channels + c] * p.b[i * p.channels + c];
    p.map[i] = sum;
  }
}
template <class T>
PLEIAD_INLINE void subtract_map(const ContrastLoop<T>& p) {
  for (std::int64_t i = 0; i < p.places; ++i) {
    for (std::int64_t c = 0; c < p.channels; ++c) p.out[i * p.channels + c] = p.a[i * p.channels + c] - p.given[i];
  }
}
template <class T>
PLEIAD_INLINE void divide_map(const ContrastLoop<T>& p) {
  for (std::int64_t i = 0; i < p.places; ++i) {
    const T by = 1 / p.given[i];
    for (std::int64_t c = 0; c < p.channels; ++c) p.out[i * p.channels + c] = p.a[i * p.channels + c] * by;
  }
}
/// Computes out = a / given + b * map.
template <class T>
PLEIAD_INLINE void divide_and_add(const ContrastLoop<T>& p) {
  for (std::int64_t i = 0; i < p.places; ++i) {
    const T by = 1 / p.given[i];
    const T add = p.map[i];
    for (std::int64_t c = 0; c < p.channels; ++c) {
      p.out[i * p.channels + c] = p.a[i * p.channels + c] * by + p.b[i * p.channels + c] * add;
    }
  }
}

#define PLEIAD_PLACES(name)                                                \
  PLEIAD_CLONES void run_##name(const ContrastLoop<float>& p) { name(p); } \
  PLEIAD_CLONES void run_##name(const ContrastLoop<double>& p) { name(p); }
PLEIAD_PLACES(sum_channels)
PLEIAD_PLACES(sum_products)
PLEIAD_PLACES(subtract_map)
PLEIAD_PLACES(divide_map)
PLEIAD_PLACES(divide_and_add)

/// Returns thread-local memory for three maps.
template <class T>
T* maps(std::int64_t places) {
  thread_local std::vector<T> memory;
  memory.resize(std::max(memory.size(), static_cast<std::size_t>(3 * places)));
  return memory.data();
}

// The box contrast: sums over the windows of each map, row by row over all channels.

template <class T>
struct BoxRow {
  const T* a;
  T* out;
  std::int64_t count;
  T factor;
};
template <class T>
PLEIAD_INLINE void add_row(const BoxRow<T>& r) {
  T* __restrict out = r.out;
  for (std::int64_t i = 0; i < r.count; ++i) out[i] += r.factor * r.a[i];
}
PLEIAD_CLONES void run_add_row(const BoxRow<float>& r) { add_row(r); }
PLEIAD_CLONES void run_add_row(const BoxRow<double>& r) { add_row(r); }

/// Sets to[i, j] to the sum of `from` over the window around (i, j), clipped to the image. Sums along rows, then
/// columns.
template <class T>
void box_sums(const Image& im, std::int64_t size, const T* from, T* between, T* to) {
  const std::int64_t radius = size / 2;
  const std::int64_t row = im.w * im.c;
  std::fill_n(between, im.count(), T(0));
  std::fill_n(to, im.count(), T(0));
  for (std::int64_t i = 0; i < im.h; ++i) {
    for (std::int64_t d = -radius; d <= radius; ++d) {
      const std::int64_t begin = std::max<std::int64_t>(0, -d);
      const std::int64_t end = std::min(im.w, im.w - d);
      if (begin >= end) continue;
      run_add_row(
          BoxRow<T>{from + i * row + (begin + d) * im.c, between + i * row + begin * im.c, (end - begin) * im.c, 1});
    }
  }
  for (std::int64_t i = 0; i < im.h; ++i) {
    for (std::int64_t u = std::max<std::int64_t>(0, i - radius); u <= std::min(im.h - 1, i + radius); ++u) {
      run_add_row(BoxRow<T>{between + u * row, to + i * row, row, 1});
    }
  }
}

/// Returns how many positions of the window around `at` are inside the axis.
std::int64_t clipped(std::int64_t at, std::int64_t size, std::int64_t length) {
  return std::min(length - 1, at + size / 2) - std::max<std::int64_t>(0, at - size / 2) + 1;
}

template <class T>
T* images(std::int64_t count) {
  thread_local std::vector<T> memory;
  memory.resize(std::max(memory.size(), static_cast<std::size_t>(3 * count)));
  return memory.data();
}

}  // namespace

void subtract_mean(const GaussianWindow& g, const Tensor& x, const Tensor& v) {
  const Image im = image_of(x);
  by_type(x.dtype(), [&]<class T>(T) {
    const std::vector<T> side = gaussian_side<T>(g.size, im.c);
    each_image(x, [&](std::int64_t n) {
      T* map = maps<T>(im.places());
      const T* from = data<T>(x) + n * im.count();
      run_sum_channels({from, nullptr, nullptr, map, nullptr, im.places(), im.c});
      filter_map(im, side, map, map + im.places(), map + 2 * im.places());
      run_subtract_map({from, nullptr, data<T>(v) + n * im.count(), nullptr, map + 2 * im.places(), im.places(), im.c});
    });
  });
}

// The mean is taken from all channels and subtracted from each alike, so the operation is symmetric.
void subtract_mean_backward(const GaussianWindow& g, const Tensor& dv, const Tensor& dx) { subtract_mean(g, dv, dx); }

void divide_by_norm(const GaussianWindow& g, const Tensor& v, const Tensor& y, const Tensor& norm) {
  const Image im = image_of(v);
  by_type(v.dtype(), [&]<class T>(T) {
    const std::vector<T> side = gaussian_side<T>(g.size, im.c);
    each_image(v, [&](std::int64_t n) {
      T* map = maps<T>(im.places());
      const T* from = data<T>(v) + n * im.count();
      T* to = data<T>(norm) + n * im.places();
      run_sum_products({from, from, nullptr, map, nullptr, im.places(), im.c});
      filter_map(im, side, map, map + im.places(), to);
      for (std::int64_t i = 0; i < im.places(); ++i) to[i] = to[i] > 0 ? std::sqrt(to[i]) : T(1);
      run_divide_map({from, nullptr, data<T>(y) + n * im.count(), nullptr, to, im.places(), im.c});
    });
  });
}

void divide_by_norm_backward(const GaussianWindow& g, const Tensor& v, const Tensor& norm, const Tensor& dy,
                             const Tensor& dv) {
  const Image im = image_of(v);
  by_type(v.dtype(), [&]<class T>(T) {
    const std::vector<T> side = gaussian_side<T>(g.size, im.c);
    each_image(v, [&](std::int64_t n) {
      T* map = maps<T>(im.places());
      T* spread = map + 2 * im.places();
      const T* from = data<T>(v) + n * im.count();
      const T* d = data<T>(dy) + n * im.count();
      const T* length = data<T>(norm) + n * im.places();
      // The gradient by the sum of G v^2 at each position, then by v through it. If that sum is 0, all v around it are
      // 0.
      run_sum_products({from, d, nullptr, map, nullptr, im.places(), im.c});
      for (std::int64_t i = 0; i < im.places(); ++i) map[i] = -map[i] / (length[i] * length[i] * length[i]);
      filter_map(im, side, map, map + im.places(), spread);
      run_divide_and_add({d, from, data<T>(dv) + n * im.count(), spread, length, im.places(), im.c});
    });
  });
}

void box_contrast(const BoxContrast& c, const Tensor& x, const Tensor& y, const Tensor& d, const Tensor& scale) {
  const Image im = image_of(x);
  by_type(x.dtype(), [&]<class T>(T) {
    const T factor = static_cast<T>(c.alpha / static_cast<double>(c.size * c.size));
    each_image(x, [&](std::int64_t n) {
      T* square = images<T>(im.count());
      const T* from = data<T>(x) + n * im.count();
      T* off = data<T>(d) + n * im.count();
      T* s = data<T>(scale) + n * im.count();
      box_sums(im, c.size, from, square, off);
      for (std::int64_t i = 0; i < im.count(); ++i) {
        const std::int64_t places = clipped(i / (im.w * im.c), c.size, im.h) * clipped(i / im.c % im.w, c.size, im.w);
        off[i] = from[i] - off[i] / static_cast<T>(places);
        square[i] = off[i] * off[i];
      }
      box_sums(im, c.size, square, square + im.count(), s);
      for (std::int64_t i = 0; i < im.count(); ++i) {
        s[i] = 1 + factor * s[i];
        data<T>(y)[n * im.count() + i] = from[i] * std::pow(s[i], static_cast<T>(-c.beta));
      }
    });
  });
}

void box_contrast_backward(const BoxContrast& c, const Tensor& x, const Tensor& d, const Tensor& scale,
                           const Tensor& dy, const Tensor& dx) {
  const Image im = image_of(x);
  by_type(x.dtype(), [&]<class T>(T) {
    const T factor = static_cast<T>(2 * c.alpha / static_cast<double>(c.size * c.size));
    each_image(x, [&](std::int64_t n) {
      const std::int64_t at = n * im.count();
      T* by_sum = images<T>(im.count());  // gradients by s, then by the means
      T* between = by_sum + im.count();
      T* spread = by_sum + 2 * im.count();
      const T* s = data<T>(scale) + at;
      T* out = data<T>(dx) + at;
      for (std::int64_t i = 0; i < im.count(); ++i) {
        const T power = std::pow(s[i], static_cast<T>(-c.beta));
        out[i] = data<T>(dy)[at + i] * power;
        by_sum[i] = -static_cast<T>(c.beta) * out[i] * data<T>(x)[at + i] / s[i];
      }
      box_sums(im, c.size, by_sum, between, spread);
      for (std::int64_t i = 0; i < im.count(); ++i) {
        const std::int64_t places = clipped(i / (im.w * im.c), c.size, im.h) * clipped(i / im.c % im.w, c.size, im.w);
        const T by_difference = factor * data<T>(d)[at + i] * spread[i];
        out[i] += by_difference;
        by_sum[i] = by_difference / static_cast<T>(places);
      }
      box_sums(im, c.size, by_sum, between, spread);
      run_add_row(BoxRow<T>{spread, out, im.count(), T(-1)});
    });
  });
}

}  // namespace pleiad::kernel

// Local filtering and contrast normalisation by definition: the oracle of the fast kernels.
#pragma once

#include <cmath>
#include <vector>

#include "kernel/contrast.h"
#include "kernel/local_conv.h"
#include "kernel/types.h"

namespace pleiad::kernel::ref {

/// Calls tap(output, input, weight) for every product of a local filtering.
template <class Tap>
void each_local_tap(const LocalConv& c, Tap&& tap) {
  for (std::int64_t n = 0; n < c.batch; ++n) {
    for (std::int64_t place = 0; place < c.out_h * c.out_w; ++place) {
      for (std::int64_t m = 0; m < c.maps; ++m) {
        for (std::int64_t k = 0; k < c.filter(); ++k) {
          const std::int64_t y = place / c.out_w * c.h.stride - c.h.pad_begin + k / (c.w.size * c.channels);
          const std::int64_t x = place % c.out_w * c.w.stride - c.w.pad_begin + k / c.channels % c.w.size;
          if (y < 0 || y >= c.in_h || x < 0 || x >= c.in_w) continue;
          tap((n * c.out_h * c.out_w + place) * c.maps + m,
              ((n * c.in_h + y) * c.in_w + x) * c.channels + k % c.channels, (place * c.maps + m) * c.filter() + k);
        }
      }
    }
  }
}

template <class T>
void local_apply(const LocalConv& c, const Tensor& x, const Tensor& w, const Tensor& y) {
  y.fill(0);
  each_local_tap(
      c, [&](std::int64_t o, std::int64_t i, std::int64_t k) { data<T>(y)[o] += data<T>(x)[i] * data<T>(w)[k]; });
}
template <class T>
void local_transposed(const LocalConv& c, const Tensor& y, const Tensor& w, const Tensor& x) {
  x.fill(0);
  each_local_tap(
      c, [&](std::int64_t o, std::int64_t i, std::int64_t k) { data<T>(x)[i] += data<T>(y)[o] * data<T>(w)[k]; });
}
template <class T>
void local_weight_gradient(const LocalConv& c, const Tensor& y, const Tensor& x, const Tensor& dw) {
  dw.fill(0);
  each_local_tap(
      c, [&](std::int64_t o, std::int64_t i, std::int64_t k) { data<T>(dw)[k] += data<T>(y)[o] * data<T>(x)[i]; });
}

/// Calls body(row, column) for the positions of the window around row i and column j that are inside the image.
template <class Body>
void each_around(const Shape& s, std::int64_t size, std::int64_t i, std::int64_t j, Body&& body) {
  for (std::int64_t u = i - size / 2; u <= i + size / 2; ++u) {
    for (std::int64_t v = j - size / 2; v <= j + size / 2; ++v) {
      if (u >= 0 && u < s[1] && v >= 0 && v < s[2]) body(u, v);
    }
  }
}

/// Computes (v - M) / sqrt(sum of G v^2).
template <class T>
void gaussian_contrast(std::int64_t size, const Tensor& x, const Tensor& y) {
  const Shape& s = x.shape();
  const std::int64_t r = size / 2;
  const double variance = 2.0 * static_cast<double>(r * r) / 9;
  double whole = 0;
  const auto g = [&](std::int64_t u, std::int64_t v) {
    return r == 0 ? 1.0 : std::exp(-static_cast<double>(u * u + v * v) / (2 * variance));
  };
  for (std::int64_t u = -r; u <= r; ++u) {
    for (std::int64_t v = -r; v <= r; ++v) whole += g(u, v) * static_cast<double>(s[3]);
  }
  const auto at = [&](std::int64_t n, std::int64_t i, std::int64_t j, std::int64_t c) {
    return ((n * s[1] + i) * s[2] + j) * s[3] + c;
  };
  std::vector<double> v(static_cast<std::size_t>(x.count()));
  for (const int pass : {0, 1}) {
    for (std::int64_t n = 0; n < s[0]; ++n) {
      for (std::int64_t i = 0; i < s[1]; ++i) {
        for (std::int64_t j = 0; j < s[2]; ++j) {
          double sum = 0;
          each_around(s, size, i, j, [&](std::int64_t a, std::int64_t b) {
            for (std::int64_t c = 0; c < s[3]; ++c) {
              const double given = static_cast<double>(data<T>(x)[at(n, a, b, c)]);
              const double centred = v[static_cast<std::size_t>(at(n, a, b, c))];
              sum += g(a - i, b - j) / whole * (pass == 0 ? given : centred * centred);
            }
          });
          for (std::int64_t c = 0; c < s[3]; ++c) {
            const std::int64_t here = at(n, i, j, c);
            if (pass == 0) v[static_cast<std::size_t>(here)] = static_cast<double>(data<T>(x)[here]) - sum;
            if (pass == 1)
              data<T>(y)[here] = static_cast<T>(v[static_cast<std::size_t>(here)] / (sum == 0 ? 1 : std::sqrt(sum)));
          }
        }
      }
    }
  }
}

template <class T>
void box_contrast(const BoxContrast& b, const Tensor& x, const Tensor& y) {
  const Shape& s = x.shape();
  const auto at = [&](std::int64_t n, std::int64_t i, std::int64_t j, std::int64_t c) {
    return ((n * s[1] + i) * s[2] + j) * s[3] + c;
  };
  std::vector<double> d(static_cast<std::size_t>(x.count()));
  for (const int pass : {0, 1}) {
    for (std::int64_t here = 0; here < x.count(); ++here) {
      const std::int64_t c = here % s[3], j = here / s[3] % s[2], i = here / (s[3] * s[2]) % s[1];
      const std::int64_t n = here / (s[3] * s[2] * s[1]);
      double sum = 0, places = 0;
      each_around(s, b.size, i, j, [&](std::int64_t u, std::int64_t v) {
        const auto there = static_cast<std::size_t>(at(n, u, v, c));
        sum += pass == 0 ? static_cast<double>(data<T>(x)[there]) : d[there] * d[there];
        places += 1;
      });
      const double given = static_cast<double>(data<T>(x)[here]);
      if (pass == 0) d[static_cast<std::size_t>(here)] = given - sum / places;
      const double scale = 1 + b.alpha / static_cast<double>(b.size * b.size) * sum;
      if (pass == 1) data<T>(y)[here] = static_cast<T>(given * std::pow(scale, -b.beta));
    }
  }
}

}  // namespace pleiad::kernel::ref

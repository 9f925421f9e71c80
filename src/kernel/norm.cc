#include "kernel/norm.h"

#include <algorithm>
#include <cmath>

#include "core/clones.h"
#include "core/threads.h"
#include "kernel/types.h"

namespace pleiad::kernel {
namespace {

constexpr std::int64_t kColumns = 16;  // a thread's least share of the channels

struct Table {
  std::int64_t rows;
  std::int64_t columns;
};
Table table_of(const Tensor& x) {
  const std::int64_t columns = x.shape()[x.shape().rank() - 1];
  return {x.count() / columns, columns};
}

/// to[c] += the sum over the rows of term(x[r, c], d[r, c], c), for columns first to last - 1.
template <class T, class Term>
PLEIAD_INLINE void sum_rows(const Table& t, const T* x, const T* d, T* __restrict to, std::int64_t first,
                            std::int64_t last, Term term) {
  for (std::int64_t r = 0; r < t.rows; ++r) {
    const T* a = x + r * t.columns;
    const T* b = d + r * t.columns;
    for (std::int64_t c = first; c < last; ++c) to[c] += term(a[c], b[c], c);
  }
}

template <class T>
PLEIAD_INLINE void moments(const Table& t, const T* x, T* mean, T* variance, std::int64_t first, std::int64_t last) {
  const T by = 1 / static_cast<T>(t.rows);
  std::fill(mean + first, mean + last, T(0));
  std::fill(variance + first, variance + last, T(0));
  sum_rows(t, x, x, mean, first, last, [](T a, T, std::int64_t) { return a; });
  for (std::int64_t c = first; c < last; ++c) mean[c] *= by;
  sum_rows(t, x, x, variance, first, last, [mean](T a, T, std::int64_t c) { return (a - mean[c]) * (a - mean[c]); });
  for (std::int64_t c = first; c < last; ++c) variance[c] *= by;
}
PLEIAD_CLONES void run_moments(const Table& t, const float* x, float* m, float* v, std::int64_t a, std::int64_t b) {
  moments(t, x, m, v, a, b);
}
PLEIAD_CLONES void run_moments(const Table& t, const double* x, double* m, double* v, std::int64_t a, std::int64_t b) {
  moments(t, x, m, v, a, b);
}

template <class T>
T over_deviation(T variance, double epsilon) {
  return 1 / std::sqrt(variance + static_cast<T>(epsilon));
}

}  // namespace

void column_moments(const Tensor& x, const Tensor& mean, const Tensor& variance) {
  const Table t = table_of(x);
  by_type(x.dtype(), [&]<class T>(T) {
    parallel_for(t.columns, kColumns, [&](std::int64_t first, std::int64_t last) {
      run_moments(t, data<T>(x), data<T>(mean), data<T>(variance), first, last);
    });
  });
}

void normalise(const Tensor& x, const Tensor& mean, const Tensor& variance, double epsilon, const Tensor& scale,
               const Tensor& shift, const Tensor& y) {
  const Table t = table_of(x);
  by_type(x.dtype(), [&]<class T>(T) {
    parallel_for(t.columns, kColumns, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t r = 0; r < t.rows; ++r) {
        const T* a = data<T>(x) + r * t.columns;
        T* to = data<T>(y) + r * t.columns;
        for (std::int64_t c = first; c < last; ++c) {
          const T factor = data<T>(scale)[c] * over_deviation(data<T>(variance)[c], epsilon);
          to[c] = (a[c] - data<T>(mean)[c]) * factor + data<T>(shift)[c];
        }
      }
    });
  });
}

// With n = (x - mean) / deviation: dscale = sum dy * n, dshift = sum dy, and
// dx = scale / deviation * (dy - (dshift + n * dscale) / rows).
void normalise_gradients(const Tensor& x, const Tensor& mean, const Tensor& variance, double epsilon, const Tensor& dy,
                         const Tensor& scale_gradient, const Tensor& shift_gradient) {
  const Table t = table_of(x);
  by_type(x.dtype(), [&]<class T>(T) {
    parallel_for(t.columns, kColumns, [&](std::int64_t first, std::int64_t last) {
      T* ds = data<T>(scale_gradient);
      T* db = data<T>(shift_gradient);
      const T* m = data<T>(mean);
      const T* v = data<T>(variance);
      std::fill(ds + first, ds + last, T(0));
      std::fill(db + first, db + last, T(0));
      sum_rows(t, data<T>(dy), data<T>(dy), db, first, last, [](T d, T, std::int64_t) { return d; });
      sum_rows(t, data<T>(x), data<T>(dy), ds, first, last, [m](T a, T d, std::int64_t c) { return (a - m[c]) * d; });
      for (std::int64_t c = first; c < last; ++c) ds[c] *= over_deviation(v[c], epsilon);
    });
  });
}

void normalise_input_gradient(const Tensor& x, const Tensor& mean, const Tensor& variance, double epsilon,
                              const Tensor& scale, const Tensor& dy, const Tensor& dx, const Tensor& scale_gradient,
                              const Tensor& shift_gradient, std::int64_t rows) {
  const Table t = table_of(x);
  by_type(x.dtype(), [&]<class T>(T) {
    parallel_for(t.columns, kColumns, [&](std::int64_t first, std::int64_t last) {
      const T* ds = data<T>(scale_gradient);
      const T* db = data<T>(shift_gradient);
      const T* m = data<T>(mean);
      const T* v = data<T>(variance);
      const T by = 1 / static_cast<T>(rows);
      for (std::int64_t r = 0; r < t.rows; ++r) {
        const T* a = data<T>(x) + r * t.columns;
        const T* d = data<T>(dy) + r * t.columns;
        T* to = data<T>(dx) + r * t.columns;
        for (std::int64_t c = first; c < last; ++c) {
          const T over = over_deviation(v[c], epsilon);
          to[c] = data<T>(scale)[c] * over * (d[c] - by * (db[c] + (a[c] - m[c]) * over * ds[c]));
        }
      }
    });
  });
}

void dropout(const RandomStream& stream, std::uint32_t step, std::int64_t first_sample, double ratio, const Tensor& x,
             const Tensor& y, const Tensor& mask) {
  const std::int64_t samples = x.shape()[0];
  const std::int64_t row = x.count() / std::max<std::int64_t>(samples, 1);
  const auto least = static_cast<std::uint32_t>(ratio * 0x1p32);
  by_type(x.dtype(), [&]<class T>(T) {
    const T keep = static_cast<T>(1 / (1 - ratio));
    parallel_for(samples, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) {
        for (std::int64_t i = 0; i < row; i += 4) {
          const Philox::Block words =
              stream.words(static_cast<std::uint64_t>(i / 4), static_cast<std::uint32_t>(first_sample + n), step);
          for (std::int64_t k = i; k < std::min(i + 4, row); ++k) {
            const T m = words[static_cast<std::size_t>(k - i)] < least ? T(0) : keep;
            data<T>(mask)[n * row + k] = m;
            data<T>(y)[n * row + k] = data<T>(x)[n * row + k] * m;
          }
        }
      }
    });
  });
}

void blend(const Tensor& to, const Tensor& from, double share, double factor) {
  by_type(to.dtype(), [&]<class T>(T) {
    for (std::int64_t i = 0; i < to.count(); ++i) {
      data<T>(to)[i] = static_cast<T>(1 - share) * data<T>(to)[i] + static_cast<T>(share * factor) * data<T>(from)[i];
    }
  });
}

void multiply(const Tensor& a, const Tensor& b, const Tensor& to) {
  by_type(a.dtype(), [&]<class T>(T) {
    parallel_for(a.count(), 8192, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) data<T>(to)[i] = data<T>(a)[i] * data<T>(b)[i];
    });
  });
}

}  // namespace pleiad::kernel

#include "kernel/norm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/clones.h"
#include "core/threads.h"
#include "kernel/types.h"

namespace pleiad::kernel {
namespace {

// Sums over rows are computed in blocks of rows that do not depend on the number of threads, and added in order.
constexpr std::int64_t kBlocks = 16;
// minimum number of elements per block; fewer do not pay for a second thread
constexpr std::int64_t kLeastElements = 8192;

struct Table {
  std::int64_t rows;
  std::int64_t columns;
};
Table table_of(const Tensor& x) {
  const std::int64_t columns = x.shape()[x.shape().rank() - 1];
  return {x.count() / columns, columns};
}

/// Arguments of the loops over some rows. Each loop uses some of the members.
template <class T>
struct NormRows {
  const T* x;
  const T* dy;
  const T* mean;
  const T* factor;  // scale / deviation
  const T* shift;   // or the value subtracted from dy
  const T* slope;   // factor of (x - mean), also subtracted from dy
  T* out;
  T* sum;
  T* weighted;
  std::int64_t rows, columns;
};

template <class T>
PLEIAD_INLINE void add_rows(const NormRows<T>& j) {
  T* __restrict sum = j.sum;
  for (std::int64_t r = 0; r < j.rows; ++r) {
    const T* x = j.x + r * j.columns;
    for (std::int64_t c = 0; c < j.columns; ++c) sum[c] += x[c];
  }
}
template <class T>
PLEIAD_INLINE void square_rows(const NormRows<T>& j) {
  T* __restrict sum = j.sum;
  for (std::int64_t r = 0; r < j.rows; ++r) {
    const T* x = j.x + r * j.columns;
    for (std::int64_t c = 0; c < j.columns; ++c) sum[c] += (x[c] - j.mean[c]) * (x[c] - j.mean[c]);
  }
}
template <class T>
PLEIAD_INLINE void gradient_rows(const NormRows<T>& j) {
  T* __restrict sum = j.sum;
  T* __restrict weighted = j.weighted;
  for (std::int64_t r = 0; r < j.rows; ++r) {
    const T* x = j.x + r * j.columns;
    const T* dy = j.dy + r * j.columns;
    for (std::int64_t c = 0; c < j.columns; ++c) {
      sum[c] += dy[c];
      weighted[c] += (x[c] - j.mean[c]) * dy[c];
    }
  }
}
template <class T>
PLEIAD_INLINE void normalise_rows(const NormRows<T>& j) {
  for (std::int64_t r = 0; r < j.rows; ++r) {
    const T* x = j.x + r * j.columns;
    T* __restrict out = j.out + r * j.columns;
    for (std::int64_t c = 0; c < j.columns; ++c) out[c] = (x[c] - j.mean[c]) * j.factor[c] + j.shift[c];
  }
}
template <class T>
PLEIAD_INLINE void backward_rows(const NormRows<T>& j) {
  for (std::int64_t r = 0; r < j.rows; ++r) {
    const T* x = j.x + r * j.columns;
    const T* dy = j.dy + r * j.columns;
    T* __restrict out = j.out + r * j.columns;
    for (std::int64_t c = 0; c < j.columns; ++c) {
      out[c] = j.factor[c] * (dy[c] - j.shift[c] - (x[c] - j.mean[c]) * j.slope[c]);
    }
  }
}

#define PLEIAD_ROWS(name)                                              \
  PLEIAD_CLONES void run_##name(const NormRows<float>& j) { name(j); } \
  PLEIAD_CLONES void run_##name(const NormRows<double>& j) { name(j); }
PLEIAD_ROWS(add_rows)
PLEIAD_ROWS(square_rows)
PLEIAD_ROWS(gradient_rows)
PLEIAD_ROWS(normalise_rows)
PLEIAD_ROWS(backward_rows)

template <class T>
NormRows<T> part_of(NormRows<T> j, std::int64_t first, std::int64_t last) {
  const std::int64_t skip = first * j.columns;
  j.x += skip;
  if (j.dy != nullptr) j.dy += skip;
  if (j.out != nullptr) j.out += skip;
  j.rows = last - first;
  return j;
}

/// Calls body(rows [first, last)) on the compute threads.
template <class T, class Body>
void each_row(const NormRows<T>& j, Body&& body) {
  const std::int64_t grain = std::max<std::int64_t>(1, kLeastElements / std::max<std::int64_t>(j.columns, 1));
  parallel_for(j.rows, grain, [&](std::int64_t first, std::int64_t last) { body(part_of(j, first, last)); });
}

/// Sums over all rows into j.sum and, unless null, j.weighted. body adds its rows to part.sum and part.weighted.
template <class T, class Body>
void sum_rows(const NormRows<T>& j, Body&& body) {
  const std::int64_t least = std::max<std::int64_t>(1, kLeastElements / std::max<std::int64_t>(j.columns, 1));
  const std::int64_t length = std::max(least, (j.rows + kBlocks - 1) / kBlocks);
  const std::int64_t blocks = (j.rows + length - 1) / length;
  const std::int64_t sums = j.weighted == nullptr ? 1 : 2;
  thread_local std::vector<T> scratch;  // allocates in the first step only
  scratch.assign(static_cast<std::size_t>(blocks * sums * j.columns), T(0));
  T* const parts = scratch.data();
  parallel_for(blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      NormRows<T> part = part_of(j, b * length, std::min((b + 1) * length, j.rows));
      part.sum = parts + b * sums * j.columns;
      part.weighted = part.sum + j.columns;
      body(part);
    }
  });
  std::fill_n(j.sum, j.columns, T(0));
  if (sums == 2) std::fill_n(j.weighted, j.columns, T(0));
  for (std::int64_t b = 0; b < blocks; ++b) {
    const T* part = parts + b * sums * j.columns;
    for (std::int64_t c = 0; c < j.columns; ++c) j.sum[c] += part[c];
    for (std::int64_t c = 0; sums == 2 && c < j.columns; ++c) j.weighted[c] += part[j.columns + c];
  }
}

template <class T>
NormRows<T> rows_of(const Tensor& x, const Tensor& mean) {
  const Table t = table_of(x);
  NormRows<T> j{};
  j.x = data<T>(x);
  j.mean = data<T>(mean);
  j.rows = t.rows;
  j.columns = t.columns;
  return j;
}

template <class T>
T over_deviation(T variance, double epsilon) {
  return 1 / std::sqrt(variance + static_cast<T>(epsilon));
}

/// Returns thread-local scratch memory.
template <class T>
T* column_scratch(std::int64_t count) {
  thread_local std::vector<T> scratch;
  scratch.resize(std::max(scratch.size(), static_cast<std::size_t>(count)));
  return scratch.data();
}

}  // namespace

void column_moments(const Tensor& x, const Tensor& mean, const Tensor& variance) {
  by_type(x.dtype(), [&]<class T>(T) {
    NormRows<T> j = rows_of<T>(x, mean);
    const T by = 1 / static_cast<T>(j.rows);
    j.sum = data<T>(mean);
    sum_rows(j, [](const NormRows<T>& part) { run_add_rows(part); });
    for (std::int64_t c = 0; c < j.columns; ++c) j.sum[c] *= by;
    j.sum = data<T>(variance);
    sum_rows(j, [](const NormRows<T>& part) { run_square_rows(part); });
    for (std::int64_t c = 0; c < j.columns; ++c) j.sum[c] *= by;
  });
}

void normalise(const Tensor& x, const Tensor& mean, const Tensor& variance, double epsilon, const Tensor& scale,
               const Tensor& shift, const Tensor& y) {
  by_type(x.dtype(), [&]<class T>(T) {
    NormRows<T> j = rows_of<T>(x, mean);
    T* const factor = column_scratch<T>(j.columns);
    for (std::int64_t c = 0; c < j.columns; ++c) {
      factor[c] = data<T>(scale)[c] * over_deviation(data<T>(variance)[c], epsilon);
    }
    j.factor = factor;
    j.shift = data<T>(shift);
    j.out = data<T>(y);
    each_row(j, [](const NormRows<T>& part) { run_normalise_rows(part); });
  });
}

// With n = (x - mean) / deviation: dscale = sum dy * n, dshift = sum dy, and
// dx = scale / deviation * (dy - (dshift + n * dscale) / rows).
void normalise_gradients(const Tensor& x, const Tensor& mean, const Tensor& variance, double epsilon, const Tensor& dy,
                         const Tensor& scale_gradient, const Tensor& shift_gradient) {
  by_type(x.dtype(), [&]<class T>(T) {
    NormRows<T> j = rows_of<T>(x, mean);
    j.dy = data<T>(dy);
    j.sum = data<T>(shift_gradient);
    j.weighted = data<T>(scale_gradient);
    sum_rows(j, [](const NormRows<T>& part) { run_gradient_rows(part); });
    for (std::int64_t c = 0; c < j.columns; ++c) j.weighted[c] *= over_deviation(data<T>(variance)[c], epsilon);
  });
}

void normalise_input_gradient(const Tensor& x, const Tensor& mean, const Tensor& variance, double epsilon,
                              const Tensor& scale, const Tensor& dy, const Tensor& dx, const Tensor& scale_gradient,
                              const Tensor& shift_gradient, std::int64_t rows) {
  by_type(x.dtype(), [&]<class T>(T) {
    NormRows<T> j = rows_of<T>(x, mean);
    T* const factor = column_scratch<T>(3 * j.columns);
    T* const less = factor + j.columns;
    T* const slope = less + j.columns;
    const T by = 1 / static_cast<T>(rows);
    for (std::int64_t c = 0; c < j.columns; ++c) {
      const T over = over_deviation(data<T>(variance)[c], epsilon);
      factor[c] = data<T>(scale)[c] * over;
      less[c] = by * data<T>(shift_gradient)[c];
      slope[c] = by * over * data<T>(scale_gradient)[c];
    }
    j.dy = data<T>(dy);
    j.factor = factor;
    j.shift = less;
    j.slope = slope;
    j.out = data<T>(dx);
    each_row(j, [](const NormRows<T>& part) { run_backward_rows(part); });
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

void dropout_tile(const RandomStream& stream, std::uint32_t step, std::int64_t first_sample, double ratio,
                  const Rect& tile, std::int64_t width, const Tensor& x, const Tensor& y, const Tensor& mask) {
  const std::int64_t channels = x.shape()[3];
  const std::int64_t length = tile.w.size() * channels;  // length of a row
  const auto least = static_cast<std::uint32_t>(ratio * 0x1p32);
  by_type(x.dtype(), [&]<class T>(T) {
    const T keep = static_cast<T>(1 / (1 - ratio));
    parallel_for(x.shape()[0] * tile.h.size(), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        const auto sample = static_cast<std::uint32_t>(first_sample + row / tile.h.size());
        const std::int64_t first = ((tile.h.begin + row % tile.h.size()) * width + tile.w.begin) * channels;
        Philox::Block words{};
        for (std::int64_t k = 0; k < length; ++k) {
          const std::int64_t element = first + k;
          if (k == 0 || element % 4 == 0) words = stream.words(static_cast<std::uint64_t>(element / 4), sample, step);
          const T m = words[static_cast<std::size_t>(element % 4)] < least ? T(0) : keep;
          data<T>(mask)[row * length + k] = m;
          data<T>(y)[row * length + k] = data<T>(x)[row * length + k] * m;
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

#include "kernel/elementwise.h"

#include <algorithm>
#include <cmath>

#include "core/clones.h"
#include "core/kernels.h"
#include "core/threads.h"
#include "kernel/types.h"

namespace pleiad::kernel {
namespace {
constexpr std::int64_t kGrain = 16384;
}

void add(const Tensor& to, const Tensor& from) {
  const std::size_t size = size_of(to.dtype());
  parallel_for(to.count(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    const std::size_t skip = static_cast<std::size_t>(begin) * size;
    add_to(to.dtype(), static_cast<std::byte*>(to.raw()) + skip, static_cast<const std::byte*>(from.raw()) + skip,
           static_cast<std::size_t>(end - begin));
  });
}

void copy(const Tensor& to, const Tensor& from) {
  const std::size_t size = size_of(to.dtype());
  parallel_for(to.count(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    const std::size_t skip = static_cast<std::size_t>(begin) * size;
    copy_bytes(static_cast<std::byte*>(to.raw()) + skip, static_cast<const std::byte*>(from.raw()) + skip,
               static_cast<std::size_t>(end - begin) * size);
  });
}

namespace {

template <class T>
struct ScaleRun {
  T* to;
  std::int64_t count;
  T factor;
};
template <class T>
PLEIAD_INLINE void scale_run(const ScaleRun<T>& r) {
  for (std::int64_t i = 0; i < r.count; ++i) r.to[i] *= r.factor;
}
template <class T>
PLEIAD_INLINE T square_sum(const T* x, std::int64_t count) {
  T sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += x[i] * x[i];
  return sum;
}
PLEIAD_CLONES void scale_of(const ScaleRun<float>& r) { scale_run(r); }
PLEIAD_CLONES void scale_of(const ScaleRun<double>& r) { scale_run(r); }
PLEIAD_CLONES float squares_of(const float* x, std::int64_t count) { return square_sum(x, count); }
PLEIAD_CLONES double squares_of(const double* x, std::int64_t count) { return square_sum(x, count); }

}  // namespace

void scale(const Tensor& to, double factor) {
  by_type(to.dtype(), [&]<class T>(T) {
    parallel_for(to.count(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      scale_of(ScaleRun<T>{data<T>(to) + begin, end - begin, static_cast<T>(factor)});
    });
  });
}

double sum_of(const Tensor& t) {
  double sum = 0;
  by_type(t.dtype(), [&]<class T>(T) {
    for (const T v : t.values<T>()) sum += static_cast<double>(v);
  });
  return sum;
}

void scale_rows(const Tensor& to, std::int64_t row, double norm) {
  by_type(to.dtype(), [&]<class T>(T) {
    parallel_for(to.count() / row, std::max<std::int64_t>(1, kGrain / row), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const T length = std::sqrt(squares_of(data<T>(to) + r * row, row));
        if (length > 0) scale_of(ScaleRun<T>{data<T>(to) + r * row, row, static_cast<T>(norm) / length});
      }
    });
  });
}

void weigh_rows(const Tensor& to, const Tensor& factors) {
  const std::int64_t row = to.count() / std::max<std::int64_t>(factors.count(), 1);
  by_type(to.dtype(), [&]<class T>(T) {
    parallel_for(factors.count(), std::max<std::int64_t>(1, kGrain / std::max<std::int64_t>(row, 1)),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t r = begin; r < end; ++r)
                     scale_of(ScaleRun<T>{data<T>(to) + r * row, row, data<T>(factors)[r]});
                 });
  });
}

Tensor rows_of(const Tensor& t, std::int64_t begin, std::int64_t end) {
  Shape shape = t.shape();
  const std::int64_t row = t.count() / shape[0];
  shape.set(0, end - begin);
  return {t.dtype(), shape,
          static_cast<std::byte*>(t.raw()) + static_cast<std::size_t>(begin * row) * size_of(t.dtype())};
}

void copy_strided(void* to, std::size_t to_stride, const void* from, std::size_t from_stride, std::size_t bytes,
                  std::int64_t rows) {
  const auto grain = std::max<std::int64_t>(1, 65536 / std::max<std::int64_t>(static_cast<std::int64_t>(bytes), 1));
  parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (auto r = static_cast<std::size_t>(begin); r < static_cast<std::size_t>(end); ++r) {
      copy_bytes(static_cast<std::byte*>(to) + r * to_stride, static_cast<const std::byte*>(from) + r * from_stride,
                 bytes);
    }
  });
}

}  // namespace pleiad::kernel

#include "engine/reduce.h"

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "core/clones.h"

namespace pleiad {

namespace {

template <class T>
PLEIAD_INLINE bool is_nan(T x) {
  if constexpr (std::is_floating_point_v<T>) return std::isnan(x);
  return false;
}

template <class T>
PLEIAD_INLINE void loop(Reduce op, T* to, const T* a, const T* b, std::size_t count, double factor) {
  if (op == Reduce::sum && factor != 1 && std::is_floating_point_v<T>) {
    const auto by = static_cast<T>(factor);
    for (std::size_t i = 0; i < count; ++i) to[i] = (a[i] + b[i]) * by;
  } else if (op == Reduce::sum) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<T>(static_cast<U>(a[i]) + static_cast<U>(b[i]));
    } else {
      for (std::size_t i = 0; i < count; ++i) to[i] = a[i] + b[i];
    }
  } else if (op == Reduce::min) {
    for (std::size_t i = 0; i < count; ++i) to[i] = b[i] < a[i] || is_nan(b[i]) ? b[i] : a[i];  // NaN propagates
  } else {
    for (std::size_t i = 0; i < count; ++i) to[i] = a[i] < b[i] || is_nan(b[i]) ? b[i] : a[i];
  }
}

#define PLEIAD_REDUCE(NAME, T)                                                                           \
  PLEIAD_CLONES void NAME(Reduce op, void* to, const void* a, const void* b, std::size_t n, double by) { \
    loop(op, static_cast<T*>(to), static_cast<const T*>(a), static_cast<const T*>(b), n, by);            \
  }
PLEIAD_REDUCE(reduce_f32, float)
PLEIAD_REDUCE(reduce_f64, double)
PLEIAD_REDUCE(reduce_i32, std::int32_t)
PLEIAD_REDUCE(reduce_i64, std::int64_t)
#undef PLEIAD_REDUCE

PLEIAD_CLONES void scale_f32(float* to, float factor, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) to[i] *= factor;
}
PLEIAD_CLONES void scale_f64(double* to, double factor, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) to[i] *= factor;
}

}  // namespace

void reduce_pair(DType dtype, Reduce op, void* to, const void* a, const void* b, std::size_t count, double factor) {
  switch (dtype) {
    case DType::float32: return reduce_f32(op, to, a, b, count, factor);
    case DType::float64: return reduce_f64(op, to, a, b, count, factor);
    case DType::int32: return reduce_i32(op, to, a, b, count, factor);
    case DType::int64: return reduce_i64(op, to, a, b, count, factor);
  }
}

void reduce_into(DType dtype, Reduce op, void* to, const void* from, std::size_t count, double factor) {
  reduce_pair(dtype, op, to, to, from, count, factor);
}

void scale(DType dtype, void* to, double factor, std::size_t count) {
  if (factor == 1) return;
  if (dtype == DType::float32) scale_f32(static_cast<float*>(to), static_cast<float>(factor), count);
  if (dtype == DType::float64) scale_f64(static_cast<double*>(to), factor, count);
}

}  // namespace pleiad

#include "core/kernels.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "core/clones.h"

namespace pleiad {

namespace {

template <class T>
PLEIAD_INLINE void add_loop(T* __restrict to, const T* __restrict from, std::size_t count) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    for (std::size_t i = 0; i < count; ++i) {
      to[i] = static_cast<T>(static_cast<U>(to[i]) + static_cast<U>(from[i]));
    }
  } else {
    for (std::size_t i = 0; i < count; ++i) to[i] += from[i];
  }
}

PLEIAD_CLONES void add_f32(float* to, const float* from, std::size_t n) { add_loop(to, from, n); }
PLEIAD_CLONES void add_f64(double* to, const double* from, std::size_t n) { add_loop(to, from, n); }
PLEIAD_CLONES void add_i32(std::int32_t* to, const std::int32_t* from, std::size_t n) { add_loop(to, from, n); }
PLEIAD_CLONES void add_i64(std::int64_t* to, const std::int64_t* from, std::size_t n) { add_loop(to, from, n); }

template <class T>
PLEIAD_INLINE void subtract_loop(T* __restrict to, const T* a, const T* b, std::size_t count) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<T>(static_cast<U>(a[i]) - static_cast<U>(b[i]));
  } else {
    for (std::size_t i = 0; i < count; ++i) to[i] = a[i] - b[i];
  }
}

PLEIAD_CLONES void subtract_f32(float* to, const float* a, const float* b, std::size_t n) {
  subtract_loop(to, a, b, n);
}
PLEIAD_CLONES void subtract_f64(double* to, const double* a, const double* b, std::size_t n) {
  subtract_loop(to, a, b, n);
}
PLEIAD_CLONES void subtract_i32(std::int32_t* to, const std::int32_t* a, const std::int32_t* b, std::size_t n) {
  subtract_loop(to, a, b, n);
}
PLEIAD_CLONES void subtract_i64(std::int64_t* to, const std::int64_t* a, const std::int64_t* b, std::size_t n) {
  subtract_loop(to, a, b, n);
}

template <class T>
std::size_t first_bad(const T* values, std::size_t count) {
  constexpr std::size_t kBlock = 1024;
  for (std::size_t start = 0; start < count; start += kBlock) {
    const std::size_t end = start + kBlock < count ? start + kBlock : count;
    T sum = 0;  // x * 0 is NaN exactly if x is not finite
    for (std::size_t i = start; i < end; ++i) sum += values[i] * T(0);
    if (sum == 0) continue;
    for (std::size_t i = start; i < end; ++i) {
      if (!std::isfinite(values[i])) return i;
    }
  }
  return count;
}

// Prevents the compiler from replacing the loop by a call of memcpy.
#if defined(__clang__)
#define PLEIAD_KEEP_LOOP
#else
#define PLEIAD_KEEP_LOOP __attribute__((optimize("O3", "no-tree-loop-distribute-patterns")))
#endif

// Values of any type, including four-byte types, hence the alignment of 4.
using Word [[gnu::may_alias, gnu::aligned(4)]] = std::uint64_t;

PLEIAD_KEEP_LOOP PLEIAD_CLONES void copy_words(Word* __restrict to, const Word* __restrict from, std::size_t words) {
  for (std::size_t i = 0; i < words; ++i) to[i] = from[i];
}

}  // namespace

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;  // the pointers may be null
  const std::size_t words = bytes / 8;
  const bool aligned = (reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from)) % 4 == 0;
  if (words < 32 || !aligned) {
    std::memcpy(to, from, bytes);
    return;
  }
  copy_words(static_cast<Word*>(to), static_cast<const Word*>(from), words);
  const std::size_t done = words * 8;
  std::memcpy(static_cast<char*>(to) + done, static_cast<const char*>(from) + done, bytes - done);
}

#if defined(__SSE2__)
void copy_bytes_non_temporal(void* to, const void* from, std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  auto* out = static_cast<char*>(to);
  const auto* in = static_cast<const char*>(from);
  const std::size_t head = std::min(bytes, (kLine - reinterpret_cast<std::uintptr_t>(out) % kLine) % kLine);
  std::memcpy(out, in, head);
  std::size_t done = head;
  for (; done + kLine <= bytes; done += kLine) {
    for (std::size_t i = 0; i < kLine; i += sizeof(__m128i)) {
      const __m128i piece = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + done + i));
      _mm_stream_si128(reinterpret_cast<__m128i*>(out + done + i), piece);
    }
  }
  std::memcpy(out + done, in + done, bytes - done);
  _mm_sfence();
}
#else
void copy_bytes_non_temporal(void* to, const void* from, std::size_t bytes) { copy_bytes(to, from, bytes); }
#endif

void add_to(DType dtype, void* to, const void* from, std::size_t count) {
  switch (dtype) {
    case DType::float32: add_f32(static_cast<float*>(to), static_cast<const float*>(from), count); return;
    case DType::float64: add_f64(static_cast<double*>(to), static_cast<const double*>(from), count); return;
    case DType::int32: add_i32(static_cast<std::int32_t*>(to), static_cast<const std::int32_t*>(from), count); return;
    case DType::int64: add_i64(static_cast<std::int64_t*>(to), static_cast<const std::int64_t*>(from), count); return;
  }
}

void subtract(DType dtype, void* to, const void* a, const void* b, std::size_t count) {
  const auto run = [&]<class T>(void (*loop)(T*, const T*, const T*, std::size_t)) {
    loop(static_cast<T*>(to), static_cast<const T*>(a), static_cast<const T*>(b), count);
  };
  switch (dtype) {
    case DType::float32: return run(subtract_f32);
    case DType::float64: return run(subtract_f64);
    case DType::int32: return run(subtract_i32);
    case DType::int64: return run(subtract_i64);
  }
}

std::size_t first_not_finite(DType dtype, const void* values, std::size_t count) {
  if (dtype == DType::float32) return first_bad(static_cast<const float*>(values), count);
  if (dtype == DType::float64) return first_bad(static_cast<const double*>(values), count);
  return count;
}

}  // namespace pleiad

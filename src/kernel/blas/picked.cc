#include "kernel/blas/picked.h"

#include <algorithm>

#include "core/clones.h"
#include "kernel/vectors.h"

namespace pleiad::kernel {
namespace {

constexpr std::int64_t kRows = 4;     // of b, to a code
constexpr std::int64_t kSums = 16;    // of kRows rows
constexpr std::int64_t kGroups = 20;  // whose sums stay in the first cache: 20 KB
constexpr int kAtOnce = 4;            // samples, so that additions need not wait for each other

/// Some groups of rows, all samples, one panel of columns.
template <class T>
struct Job {
  const std::uint8_t* codes;
  const T* b;  // the first row
  T* c;
  std::int64_t samples, groups, code_stride, rows, b_stride, c_stride, wide;
  bool first;  // c is set, not added to
};

/// A panel's `wide` columns of one row, in vectors; beyond them zeros.
template <class T, int kBytes>
PLEIAD_INLINE void load_row(typename Lanes<T, kBytes>::Vector* v, const T* from, std::int64_t wide) {
  constexpr int kLanes = Lanes<T, kBytes>::kCount;
  T part[kPanel<T>] = {};
  if (wide < kPanel<T>) {
    std::copy_n(from, wide, part);
    from = part;
  }
#pragma GCC unroll 4
  for (int i = 0; i < 64 / kBytes; ++i) load(v[i], from + i * kLanes);
}
template <class T, int kBytes>
PLEIAD_INLINE void store_row(const typename Lanes<T, kBytes>::Vector* v, T* to, std::int64_t wide) {
  constexpr int kLanes = Lanes<T, kBytes>::kCount;
  T part[kPanel<T>];
  T* at = wide < kPanel<T> ? part : to;
#pragma GCC unroll 4
  for (int i = 0; i < 64 / kBytes; ++i) store(at + i * kLanes, v[i]);
  if (wide < kPanel<T>) std::copy_n(part, wide, to);
}

template <class T, int kBytes, int kSamples>
PLEIAD_INLINE void add_samples(const Job<T>& j, std::int64_t s, const T* sums) {
  using V = typename Lanes<T, kBytes>::Vector;
  constexpr int kLanes = Lanes<T, kBytes>::kCount;
  constexpr int kVectors = 64 / kBytes;
  V y[kSamples][kVectors] = {};
  const std::uint8_t* code = j.codes + s * j.code_stride;
  if (!j.first) {
#pragma GCC unroll 4
    for (int i = 0; i < kSamples; ++i) load_row<T, kBytes>(y[i], j.c + (s + i) * j.c_stride, j.wide);
  }
  for (std::int64_t g = 0; g < j.groups; ++g) {
#pragma GCC unroll 4
    for (int i = 0; i < kSamples; ++i) {
      const T* sum = sums + g * kSums * kPanel<T> + code[i * j.code_stride + g];
#pragma GCC unroll 4
      for (int k = 0; k < kVectors; ++k) {
        V more;
        load(more, sum + k * kLanes);
        y[i][k] += more;
      }
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kSamples; ++i) store_row<T, kBytes>(y[i], j.c + (s + i) * j.c_stride, j.wide);
}

template <class T, int kBytes>
PLEIAD_INLINE void add_groups(const Job<T>& j) {
  using V = typename Lanes<T, kBytes>::Vector;
  constexpr int kVectors = 64 / kBytes;
  constexpr int kLanes = Lanes<T, kBytes>::kCount;
  alignas(64) T sums[kGroups * kSums * kPanel<T>];
  for (std::int64_t g = 0; g < j.groups; ++g) {
    V row[kRows][kVectors] = {};
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const std::int64_t at = g * kRows + r;
      if (at < j.rows) load_row<T, kBytes>(row[r], j.b + at * j.b_stride, j.wide);
      if (at + kGroups * kRows < j.rows) __builtin_prefetch(j.b + (at + kGroups * kRows) * j.b_stride);
    }
#pragma GCC unroll 4
    for (int k = 0; k < kVectors; ++k) {
      V sum[kSums] = {};
#pragma GCC unroll 16
      for (int i = 1; i < kSums; ++i) {
        const int top = i >= 8 ? 3 : i >= 4 ? 2 : i >= 2 ? 1 : 0;
        sum[i] = sum[i - (1 << top)] + row[top][k];
      }
#pragma GCC unroll 16
      for (int i = 0; i < kSums; ++i) store(sums + (g * kSums + i) * kPanel<T> + k * kLanes, sum[i]);
    }
  }
  std::int64_t s = 0;
  for (; s + kAtOnce <= j.samples; s += kAtOnce) add_samples<T, kBytes, kAtOnce>(j, s, sums);
  for (; s < j.samples; ++s) add_samples<T, kBytes, 1>(j, s, sums);
}
#define PLEIAD_FOR(T)                                                 \
  PLEIAD_V4 void groups_v4(const Job<T>& j) { add_groups<T, 64>(j); } \
  PLEIAD_V3 void groups_v3(const Job<T>& j) { add_groups<T, 32>(j); } \
  void groups_any(const Job<T>& j) { add_groups<T, 16>(j); }
PLEIAD_FOR(float)
PLEIAD_FOR(double)

template <class T>
void run_groups(const Job<T>& j) {
  static const Level level = cpu_level();
  level == Level::v4 ? groups_v4(j) : level == Level::v3 ? groups_v3(j) : groups_any(j);
}

template <class T>
PLEIAD_INLINE void codes_of(const T* from, std::int64_t k, std::uint8_t* codes) {
  const auto bit = [](T x, int place) { return static_cast<std::uint8_t>(x != 0 ? kPanel<T> << place : 0); };
  const std::int64_t whole = k / kRows;
  for (std::int64_t g = 0; g < whole; ++g) {
    const T* x = from + g * kRows;
    codes[g] = static_cast<std::uint8_t>(bit(x[0], 0) | bit(x[1], 1) | bit(x[2], 2) | bit(x[3], 3));
  }
  if (whole * kRows == k) return;
  codes[whole] = 0;
  for (std::int64_t i = whole * kRows; i < k; ++i) {
    codes[whole] = static_cast<std::uint8_t>(codes[whole] | bit(from[i], static_cast<int>(i % kRows)));
  }
}
PLEIAD_CLONES void run_codes(const float* from, std::int64_t k, std::uint8_t* codes) { codes_of(from, k, codes); }
PLEIAD_CLONES void run_codes(const double* from, std::int64_t k, std::uint8_t* codes) { codes_of(from, k, codes); }

}  // namespace

template <class T>
void pick_codes(const T* from, std::int64_t rows, std::int64_t k, std::uint8_t* codes) {
  for (std::int64_t r = 0; r < rows; ++r) run_codes(from + r * k, k, codes + r * code_size(k));
}

template <class T>
void add_picked(const Product& p, const std::uint8_t* codes, const T* b, std::int64_t b_stride, Range columns, T* c,
                std::int64_t c_stride) {
  const std::int64_t groups = code_size(p.k);
  for (std::int64_t column = columns.begin; column < columns.end; column += kPanel<T>) {
    for (std::int64_t g = 0; g < groups; g += kGroups) {
      run_groups(Job<T>{.codes = codes + g,
                        .b = b + g * kRows * b_stride + column,
                        .c = c + column,
                        .samples = p.m,
                        .groups = std::min(kGroups, groups - g),
                        .code_stride = groups,
                        .rows = p.k - g * kRows,
                        .b_stride = b_stride,
                        .c_stride = c_stride,
                        .wide = std::min(kPanel<T>, columns.end - column),
                        .first = g == 0});
    }
  }
}

#define PLEIAD_PICKED(T)                                                            \
  template void pick_codes<T>(const T*, std::int64_t, std::int64_t, std::uint8_t*); \
  template void add_picked<T>(const Product&, const std::uint8_t*, const T*, std::int64_t, Range, T*, std::int64_t);
PLEIAD_PICKED(float)
PLEIAD_PICKED(double)

}  // namespace pleiad::kernel

#include "kernel/blas/picked.h"

#include <algorithm>

#include "core/clones.h"
#include "kernel/vectors.h"

namespace pleiad::kernel {
namespace {

constexpr std::int64_t kRows = 4;     // rows of b per code
constexpr std::int64_t kSums = 16;    // possible sums of kRows rows
constexpr std::int64_t kGroups = 16;  // groups whose sums fit in the L1 cache: 16 KB

/// Some groups of rows, all samples, and one panel of columns.
template <class T>
struct PickLoop {
  const std::uint8_t* codes;
  const T* b;  // the first row
  T* c;
  std::int64_t samples, groups, code_stride, rows, b_stride, c_stride, wide;
  bool first;  // set c instead of adding to it
};

/// Loads a panel's columns of one row into vectors. Pads a panel that is not whole: `wide` columns, then zeros.
template <class T, int kBytes, bool kWhole>
PLEIAD_INLINE void load_row(typename Lanes<T, kBytes>::Vector* v, const T* from, std::int64_t wide) {
  constexpr int kLanes = Lanes<T, kBytes>::kCount;
  T part[kPanel<T>];
  if constexpr (!kWhole) {
    for (std::int64_t i = 0; i < kPanel<T>; ++i) part[i] = i < wide ? from[i] : T(0);
    from = part;
  }
#pragma GCC unroll 4
  for (int i = 0; i < 64 / kBytes; ++i) load(v[i], from + i * kLanes);
}
template <class T, int kBytes, bool kWhole>
PLEIAD_INLINE void store_row(const typename Lanes<T, kBytes>::Vector* v, T* to, std::int64_t wide) {
  constexpr int kLanes = Lanes<T, kBytes>::kCount;
  T part[kPanel<T>];
  T* at = kWhole ? to : part;
#pragma GCC unroll 4
  for (int i = 0; i < 64 / kBytes; ++i) store(at + i * kLanes, v[i]);
  if constexpr (!kWhole) std::copy_n(part, wide, to);
}

/// Adds kSamples samples at once, so that their sums stay in registers and additions need not wait for each other.
template <class T, int kBytes, bool kWhole, int kSamples>
PLEIAD_INLINE void add_samples(const PickLoop<T>& j, std::int64_t s, const T* sums) {
  using V = typename Lanes<T, kBytes>::Vector;
  constexpr int kLanes = Lanes<T, kBytes>::kCount;
  constexpr int kVectors = 64 / kBytes;
  V y[kSamples][kVectors] = {};
  if (!j.first) {
#pragma GCC unroll 8
    for (int i = 0; i < kSamples; ++i) {
      load_row<T, kBytes, kWhole>(y[i], j.c + (s + i) * j.c_stride, j.wide);
    }
  }
  const std::uint8_t* code = j.codes + s;
  const T* const end = sums + j.groups * kSums * kPanel<T>;
  for (const T* group = sums; group < end; group += kSums * kPanel<T>, code += j.code_stride) {
#pragma GCC unroll 8
    for (int i = 0; i < kSamples; ++i) {
      const T* sum = group + code[i];
#pragma GCC unroll 4
      for (int k = 0; k < kVectors; ++k) {
        V more;
        load(more, sum + k * kLanes);
        y[i][k] += more;
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kSamples; ++i) {
    store_row<T, kBytes, kWhole>(y[i], j.c + (s + i) * j.c_stride, j.wide);
  }
}

/// Computes the sixteen sums of one group's rows. Rows beyond the last one count as zeros.
template <class T, int kBytes, bool kWhole>
PLEIAD_INLINE void sums_of(const PickLoop<T>& j, std::int64_t first, T* sums) {
  using V = typename Lanes<T, kBytes>::Vector;
  constexpr int kVectors = 64 / kBytes;
  constexpr int kLanes = Lanes<T, kBytes>::kCount;
  V row[kRows][kVectors] = {};
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    if (first + r < j.rows) load_row<T, kBytes, kWhole>(row[r], j.b + (first + r) * j.b_stride, j.wide);
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
    for (int i = 0; i < kSums; ++i) store(sums + i * kPanel<T> + k * kLanes, sum[i]);
  }
}

template <class T, int kBytes, bool kWhole, int kAtOnce>
PLEIAD_INLINE void add_panel(const PickLoop<T>& j) {
  alignas(64) T sums[kGroups * kSums * kPanel<T>];
  for (std::int64_t g = 0; g < j.groups; ++g) {
    sums_of<T, kBytes, kWhole>(j, g * kRows, sums + g * kSums * kPanel<T>);
    for (std::int64_t r = (g + kGroups) * kRows; r < std::min((g + 1 + kGroups) * kRows, j.rows); ++r) {
      __builtin_prefetch(j.b + r * j.b_stride);
    }
  }
  std::int64_t s = 0;
  for (; s + kAtOnce <= j.samples; s += kAtOnce) add_samples<T, kBytes, kWhole, kAtOnce>(j, s, sums);
  if constexpr (kAtOnce > 4) {
    for (; s + 4 <= j.samples; s += 4) add_samples<T, kBytes, kWhole, 4>(j, s, sums);
  }
  for (; s < j.samples; ++s) add_samples<T, kBytes, kWhole, 1>(j, s, sums);
}
template <class T, int kBytes, int kAtOnce>
PLEIAD_INLINE void add_groups(const PickLoop<T>& j) {
  j.wide == kPanel<T> ? add_panel<T, kBytes, true, kAtOnce>(j) : add_panel<T, kBytes, false, kAtOnce>(j);
}
#define PLEIAD_FOR(T)                                                         \
  PLEIAD_V4 void groups_v4(const PickLoop<T>& j) { add_groups<T, 64, 8>(j); } \
  PLEIAD_V3 void groups_v3(const PickLoop<T>& j) { add_groups<T, 32, 4>(j); } \
  void groups_any(const PickLoop<T>& j) { add_groups<T, 16, 2>(j); }
PLEIAD_FOR(float)
PLEIAD_FOR(double)
#undef PLEIAD_FOR

template <class T>
void run_groups(const PickLoop<T>& j) {
  static const Level level = cpu_level();
  level == Level::v4 ? groups_v4(j) : level == Level::v3 ? groups_v3(j) : groups_any(j);
}

template <class T>
PLEIAD_INLINE void codes_of(const T* from, std::int64_t k, std::int64_t stride, std::uint8_t* codes) {
  const auto bit = [](T x, int place) { return static_cast<std::uint8_t>(x != 0 ? kPanel<T> << place : 0); };
  const std::int64_t whole = k / kRows;
  for (std::int64_t g = 0; g < whole; ++g) {
    const T* x = from + g * kRows;
    codes[g * stride] = static_cast<std::uint8_t>(bit(x[0], 0) | bit(x[1], 1) | bit(x[2], 2) | bit(x[3], 3));
  }
  if (whole * kRows == k) return;
  std::uint8_t last = 0;
  for (std::int64_t i = whole * kRows; i < k; ++i) {
    last = static_cast<std::uint8_t>(last | bit(from[i], static_cast<int>(i % kRows)));
  }
  codes[whole * stride] = last;
}
#define PLEIAD_FOR(T)                                                                                     \
  PLEIAD_CLONES void run_codes(const T* from, std::int64_t k, std::int64_t stride, std::uint8_t* codes) { \
    codes_of(from, k, stride, codes);                                                                     \
  }
PLEIAD_FOR(float)
PLEIAD_FOR(double)
#undef PLEIAD_FOR

}  // namespace

template <class T>
void pick_codes(const T* a, std::int64_t m, std::int64_t k, Range rows, std::uint8_t* codes) {
  for (std::int64_t r = rows.begin; r < rows.end; ++r) run_codes(a + r * k, k, m, codes + r);
}

template <class T>
void add_picked(const Product& p, const std::uint8_t* codes, const Rows<T>& b, Range columns, T* c,
                std::int64_t c_stride) {
  const std::int64_t groups = code_size(p.k);
  for (std::int64_t column = columns.begin; column < columns.end; column += kPanel<T>) {
    for (std::int64_t g = 0; g < groups; g += kGroups) {
      run_groups(PickLoop<T>{.codes = codes + g * p.m,
                             .b = b.data + column * b.column_stride + g * kRows * b.stride,
                             .c = c + column,
                             .samples = p.m,
                             .groups = std::min(kGroups, groups - g),
                             .code_stride = p.m,
                             .rows = p.k - g * kRows,
                             .b_stride = b.stride,
                             .c_stride = c_stride,
                             .wide = std::min(kPanel<T>, columns.end - column),
                             .first = g == 0});
    }
  }
}

#define PLEIAD_PICKED(T)                                                                   \
  template void pick_codes<T>(const T*, std::int64_t, std::int64_t, Range, std::uint8_t*); \
  template void add_picked<T>(const Product&, const std::uint8_t*, const Rows<T>&, Range, T*, std::int64_t);
PLEIAD_PICKED(float)
PLEIAD_PICKED(double)

}  // namespace pleiad::kernel

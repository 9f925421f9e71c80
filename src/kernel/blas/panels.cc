#include "kernel/blas/panels.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernel/vectors.h"

namespace pleiad::kernel {
namespace {

constexpr std::int64_t kDepth = 768;               // of k, per pass over c
constexpr std::int64_t kLeftElements = 48 * 1024;  // of the left operand that fit in the L2 cache

/// A tile of c: a few rows by one or two panels.
template <class T>
struct Tile {
  const T* left;   // k x rows
  const T* right;  // k x kPanel; the next panel is `panel` elements further
  T* c;
  std::int64_t k, panel, c_stride;
  int rows, panels, columns;
  T alpha, beta;
};

/// Computes kRows rows of kVectors vectors with kBytes bytes each, all in registers.
template <class T, int kBytes, int kVectors, int kRows>
PLEIAD_INLINE void tile_of(const Tile<T>& t) {
  using V = typename Lanes<T, kBytes>::Vector;
  constexpr int kLanes = Lanes<T, kBytes>::kCount;
  V sum[kRows][kVectors] = {};
  const T* a = t.left;
  const T* b = t.right;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {  // prefetches the destination while the sums are computed
    for (int v = 0; v < kVectors; v += kPanel<T> / kLanes) __builtin_prefetch(t.c + r * t.c_stride + v * kLanes, 1);
  }
  for (std::int64_t k = 0; k < t.k; ++k) {
    V right[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      load(right[v], b + v * kLanes / kPanel<T> * t.panel + v * kLanes % kPanel<T>);
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) sum[r][v] += a[r] * right[v];
    }
    a += kRows;
    b += kPanel<T>;
  }
  // rare, so it goes through memory and is not unrolled, which keeps the code small
  if (t.columns != kVectors * kLanes) {
    T part[kRows][kVectors * kLanes];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) store(part[r] + v * kLanes, t.alpha * sum[r][v]);
    }
#pragma GCC unroll 1
    for (int r = 0; r < kRows; ++r) {
      T* to = t.c + r * t.c_stride;
      for (int i = 0; i < t.columns; ++i) to[i] = t.beta != 0 ? part[r][i] + t.beta * to[i] : part[r][i];
    }
    return;
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    T* row = t.c + r * t.c_stride;
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) {
      V y = t.alpha * sum[r][v];
      T* to = row + v * kLanes;
      if (t.beta != 0) {
        V old;
        load(old, to);
        y += t.beta * old;
      }
      store(to, y);
    }
  }
}

template <class T, int kBytes, int kVectors, int kRows>
PLEIAD_INLINE void tile_by_rows(const Tile<T>& t) {
  if (t.rows == kRows) return tile_of<T, kBytes, kVectors, kRows>(t);
  if constexpr (kRows > 1) tile_by_rows<T, kBytes, kVectors, kRows - 1>(t);
}

/// Transposes a square of lanes x lanes: to[i][j] = from[j][i]. Uses log2(lanes) perfect shuffles of all elements.
template <class T, int kBytes>
PLEIAD_INLINE void transpose_square(const T* from, std::int64_t stride, T* to, std::int64_t to_stride) {
  using V = typename Lanes<T, kBytes>::Vector;
  constexpr int kLanes = Lanes<T, kBytes>::kCount;
  V x[kLanes];
  V y[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) load(x[i], from + i * stride);
#pragma GCC unroll 4
  for (int done = 1; done < kLanes; done *= 2) {
#pragma GCC unroll 16
    for (int i = 0; i < kLanes / 2; ++i) {
      interleave(x[i], x[i + kLanes / 2], y[2 * i], y[2 * i + 1], std::make_integer_sequence<int, kLanes>());
    }
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) x[i] = y[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) store(to + i * to_stride, x[i]);
}

/// `rows` rows of `count` elements, `stride` apart; transposed rows are `to_stride` apart.
template <class T>
struct Turn {
  const T* from;
  std::int64_t rows, count, stride;
  T* to;
  std::int64_t to_stride;
};
template <class T, int kBytes>
PLEIAD_INLINE void turn(const Turn<T>& t) {
  constexpr int kLanes = Lanes<T, kBytes>::kCount;
  const std::int64_t rows = t.rows / kLanes * kLanes;
  const std::int64_t count = t.count / kLanes * kLanes;
  for (std::int64_t r = 0; r < rows; r += kLanes) {
    for (std::int64_t i = 0; i < count; i += kLanes) {
      transpose_square<T, kBytes>(t.from + r * t.stride + i, t.stride, t.to + i * t.to_stride + r, t.to_stride);
    }
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = count; i < t.count; ++i) t.to[i * t.to_stride + r] = t.from[r * t.stride + i];
  }
  const Turn<T> rest{t.from + rows * t.stride, t.rows - rows, t.count, t.stride, t.to + rows, t.to_stride};
  if constexpr (kBytes > 16) return turn<T, kBytes / 2>(rest);  // the remaining rows in smaller squares
  for (std::int64_t r = 0; r < rest.rows; ++r) {
    for (std::int64_t i = 0; i < rest.count; ++i) rest.to[i * rest.to_stride + r] = rest.from[r * rest.stride + i];
  }
}

#define PLEIAD_FOR(T)                                                              \
  PLEIAD_V4 void tile_v4(const Tile<T>& t) {                                       \
    t.panels == 2 ? tile_by_rows<T, 64, 2, 14>(t) : tile_by_rows<T, 64, 1, 14>(t); \
  }                                                                                \
  PLEIAD_V4 void turn_v4(const Turn<T>& t) { turn<T, 64>(t); }                     \
  PLEIAD_V3 void tile_v3(const Tile<T>& t) { tile_by_rows<T, 32, 2, 6>(t); }       \
  PLEIAD_V3 void turn_v3(const Turn<T>& t) { turn<T, 32>(t); }                     \
  void tile_any(const Tile<T>& t) { tile_by_rows<T, 16, 4, 2>(t); }                \
  void turn_any(const Turn<T>& t) { turn<T, 16>(t); }
PLEIAD_FOR(float)
PLEIAD_FOR(double)

template <class T>
struct Kernels {
  int rows, panels;  // of the largest tile
  void (*tile)(const Tile<T>&);
  void (*turn)(const Turn<T>&);
};
template <class T>
Kernels<T> kernels_of(Level level) {
  switch (level) {
    case Level::v4: return {14, 2, tile_v4, turn_v4};
    case Level::v3: return {6, 1, tile_v3, turn_v3};
    case Level::any: break;
  }
  return {2, 1, tile_any, turn_any};
}
template <class T>
const Kernels<T>& kernels() {
  static const Kernels<T> chosen = kernels_of<T>(cpu_level());
  return chosen;
}

/// Splits m rows into blocks of nearly equal height.
struct Blocks {
  std::int64_t m, count;
  Blocks(std::int64_t rows, std::int64_t largest) : m(rows), count((rows + largest - 1) / largest) {}
  [[nodiscard]] Range at(std::int64_t i) const { return {m * i / count, m * (i + 1) / count}; }
  /// Returns the block that contains row r.
  [[nodiscard]] std::int64_t of(std::int64_t r) const { return ((r + 1) * count - 1) / m; }
};

/// Calls body(range of k) for passes of nearly equal depth.
template <class Body>
void for_passes(Range k, Body&& body) {
  const std::int64_t depth = k.end - k.begin;
  const std::int64_t passes = std::max<std::int64_t>((depth + kDepth - 1) / kDepth, 1);
  for (std::int64_t i = 0; i < passes; ++i)
    body(Range{k.begin + depth * i / passes, k.begin + depth * (i + 1) / passes});
}
/// Calls body(columns) for each tile's range of panels.
template <class T, class Body>
void for_tiles(Range columns, Body&& body) {
  const std::int64_t wide = kernels<T>().panels * kPanel<T>;
  for (std::int64_t c = columns.begin; c < columns.end; c += wide) body(Range{c, std::min(c + wide, columns.end)});
}

/// Computes one tile's columns of the blocks `which` over the range k. `right` starts at k.begin; its panels have
/// `height` rows.
template <class T>
void tiles(const Product& p, const Blocks& blocks, Range which, Range k, const T* left, const T* right,
           std::int64_t height, Range columns, bool first, T* c, std::int64_t c_stride) {
  for (std::int64_t i = which.begin; i < which.end; ++i) {
    const Range rows = blocks.at(i);
    const std::int64_t high = rows.end - rows.begin;
    const std::int64_t wide = columns.end - columns.begin;
    kernels<T>().tile({.left = left + rows.begin * p.k + k.begin * high,
                       .right = right,
                       .c = c + rows.begin * c_stride + columns.begin,
                       .k = k.end - k.begin,
                       .panel = height * kPanel<T>,
                       .c_stride = c_stride,
                       .rows = static_cast<int>(high),
                       .panels = wide > kPanel<T> ? 2 : 1,
                       .columns = static_cast<int>(wide),
                       .alpha = static_cast<T>(p.alpha),
                       .beta = static_cast<T>(first ? p.beta : 1)});
  }
}

}  // namespace

template <class T>
void pack_right(const Operand& b, std::int64_t k, std::int64_t n, Range columns, T* to) {
  constexpr std::int64_t kWide = kPanel<T>;
  const T* from = static_cast<const T*>(b.data);
  if (b.transposed) {
    for (std::int64_t c = columns.begin; c < columns.end; c += kWide) {
      T* panel = to + c * k;
      const std::int64_t wide = std::min(kWide, n - c);
      if (wide < kWide) std::fill_n(panel, k * kWide, T(0));
      kernels<T>().turn({from + c * b.stride, wide, k, b.stride, panel, kWide});
    }
    return;
  }
  constexpr std::int64_t kAtOnce = 4;  // rows at once: long runs to read, and not too short ones to write
  for (std::int64_t i = 0; i < k; i += kAtOnce) {
    const std::int64_t end = std::min(i + kAtOnce, k);
    for (std::int64_t c = columns.begin; c < columns.end; c += kWide) {
      const std::int64_t wide = std::min(kWide, n - c);
      for (std::int64_t r = i; r < end; ++r) {
        T* row = to + c * k + r * kWide;
        const T* given = from + r * b.stride + c;
        if (wide == kWide) {
          std::memcpy(row, given, sizeof(T) * kWide);
        } else {
          for (std::int64_t j = 0; j < kWide; ++j) row[j] = j < wide ? given[j] : T(0);
        }
      }
    }
  }
}

template <class T>
void pack_left(const Operand& a, std::int64_t m, std::int64_t k, Range rows, Range columns, T* to) {
  if (rows.begin >= rows.end) return;
  const Blocks blocks(m, kernels<T>().rows);
  const T* from = static_cast<const T*>(a.data);
  for (std::int64_t i = blocks.of(rows.begin); i <= blocks.of(rows.end - 1); ++i) {
    const Range block = blocks.at(i);
    const Range part = {std::max(block.begin, rows.begin), std::min(block.end, rows.end)};
    const std::int64_t high = block.end - block.begin;
    T* out = to + block.begin * k + columns.begin * high + part.begin - block.begin;
    const std::int64_t count = columns.end - columns.begin;
    if (a.transposed) {
      const T* row = from + columns.begin * a.stride + part.begin;
      for (std::int64_t j = 0; j < count; ++j) std::copy_n(row + j * a.stride, part.end - part.begin, out + j * high);
    } else {
      kernels<T>().turn(
          {from + part.begin * a.stride + columns.begin, part.end - part.begin, count, a.stride, out, high});
    }
  }
}

template <class T>
void multiply(const Product& p, const T* left, const T* right, Range columns, T* c, std::int64_t c_stride) {
  if (p.m == 0 || columns.begin >= columns.end) return;
  const Blocks blocks(p.m, kernels<T>().rows);
  for_passes({0, p.k}, [&](Range k) {
    // Takes as many rows as fit in the L2 cache while all panels pass.
    const std::int64_t depth = std::max<std::int64_t>(k.end - k.begin, 1);
    const std::int64_t at_once = std::max<std::int64_t>(kLeftElements / depth / kernels<T>().rows, 1);
    for (std::int64_t first = 0; first < blocks.count; first += at_once) {
      const Range rows = {first, std::min(first + at_once, blocks.count)};
      for_tiles<T>(columns, [&](Range tile) {
        tiles<T>(p, blocks, rows, k, left, right + tile.begin * p.k + k.begin * kPanel<T>, p.k, tile, k.begin == 0, c,
                 c_stride);
      });
    }
  });
}

#define PLEIAD_PANELS(T)                                                                    \
  template void pack_right<T>(const Operand&, std::int64_t, std::int64_t, Range, T*);       \
  template void pack_left<T>(const Operand&, std::int64_t, std::int64_t, Range, Range, T*); \
  template void multiply<T>(const Product&, const T*, const T*, Range, T*, std::int64_t);
PLEIAD_PANELS(float)
PLEIAD_PANELS(double)

}  // namespace pleiad::kernel

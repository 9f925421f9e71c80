#include "kernel/rbm.h"

#include <algorithm>
#include <array>

#include "core/clones.h"
#include "core/threads.h"
#include "kernel/types.h"
#include "kernel/vectors.h"

namespace pleiad::kernel {
namespace {

// Processes sixteen counters at once, so that the compiler vectorises the loops.
constexpr std::size_t kLanes = 16;
constexpr std::int64_t kAtOnce = 4 * kLanes;

template <class T>
struct SampleRow {
  const T* p;
  T* to;
  std::int64_t columns;
  Philox::Key key;
  std::uint64_t first_block;
  std::uint32_t sample;
  std::uint32_t step;
};

/// Computes the words of kLanes blocks, starting with block `first`. Equals Philox::operator().
PLEIAD_INLINE void words_of(const Philox::Key& key, std::uint64_t first, std::uint32_t sample, std::uint32_t step,
                            std::uint32_t* __restrict out) {
  std::uint32_t c0[kLanes];
  std::uint32_t c1[kLanes];
  std::uint32_t c2[kLanes];
  std::uint32_t c3[kLanes];
  for (std::size_t l = 0; l < kLanes; ++l) {
    c0[l] = static_cast<std::uint32_t>(first + l);
    c1[l] = static_cast<std::uint32_t>((first + l) >> 32);
    c2[l] = sample;
    c3[l] = step;
  }
  std::uint32_t k0 = key[0];
  std::uint32_t k1 = key[1];
  for (int round = 0; round < 10; ++round) {
    for (std::size_t l = 0; l < kLanes; ++l) {
      const std::uint64_t a = std::uint64_t{0xD2511F53} * c0[l];
      const std::uint64_t b = std::uint64_t{0xCD9E8D57} * c2[l];
      c0[l] = static_cast<std::uint32_t>(b >> 32) ^ c1[l] ^ k0;
      c1[l] = static_cast<std::uint32_t>(b);
      c2[l] = static_cast<std::uint32_t>(a >> 32) ^ c3[l] ^ k1;
      c3[l] = static_cast<std::uint32_t>(a);
    }
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  for (std::size_t l = 0; l < kLanes; ++l) {
    out[4 * l] = c0[l];
    out[4 * l + 1] = c1[l];
    out[4 * l + 2] = c2[l];
    out[4 * l + 3] = c3[l];
  }
}

/// Does the same with vectors of kLanes. Takes a third of the time where 64-bit products are one instruction.
PLEIAD_INLINE void words_by_vectors(const Philox::Key& key, std::uint64_t first, std::uint32_t sample,
                                    std::uint32_t step, std::uint32_t* __restrict out) {
  using V = Lanes<std::uint32_t, 4 * kLanes>::Vector;
  using W = Lanes<std::uint64_t, 4 * kLanes>::Vector;
  constexpr std::uint64_t kLow = 0xFFFFFFFF;
  const auto product = [](const V& x, std::uint64_t by, V& high, V& low) __attribute__((always_inline)) {
    const W even = (reinterpret_cast<W>(x) & kLow) * by;
    const W odd = (reinterpret_cast<W>(x) >> 32) * by;
    const W upper = (even >> 32) | (odd & ~kLow);
    const W lower = (even & kLow) | (odd << 32);
    high = reinterpret_cast<V>(upper);
    low = reinterpret_cast<V>(lower);
  };
  V c0;
  V c1;
  for (std::size_t l = 0; l < kLanes; ++l) {
    c0[l] = static_cast<std::uint32_t>(first + l);
    c1[l] = static_cast<std::uint32_t>((first + l) >> 32);
  }
  V c2 = V{} + sample;
  V c3 = V{} + step;
  std::uint32_t k0 = key[0];
  std::uint32_t k1 = key[1];
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    V a_high;
    V a_low;
    V b_high;
    V b_low;
    product(c0, 0xD2511F53, a_high, a_low);
    product(c2, 0xCD9E8D57, b_high, b_low);
    c0 = b_high ^ c1 ^ k0;
    c1 = b_low;
    c2 = a_high ^ c3 ^ k1;
    c3 = a_low;
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  constexpr std::make_integer_sequence<int, kLanes> kAll;
  V even[2];
  V odd[2];
  interleave(c0, c2, even[0], even[1], kAll);
  interleave(c1, c3, odd[0], odd[1], kAll);
  for (std::size_t half = 0; half < 2; ++half) {
    V low;
    V high;
    interleave(even[half], odd[half], low, high, kAll);
    store(out + 2 * half * kLanes, low);
    store(out + (2 * half + 1) * kLanes, high);
  }
}

template <class T, bool kVectors = false>
PLEIAD_INLINE void binary_row(const SampleRow<T>& r) {
  std::uint32_t words[kAtOnce];
  for (std::int64_t i = 0; i < r.columns; i += kAtOnce) {
    const std::uint64_t block = r.first_block + static_cast<std::uint64_t>(i / 4);
    if constexpr (kVectors) {
      words_by_vectors(r.key, block, r.sample, r.step, words);
    } else {
      words_of(r.key, block, r.sample, r.step, words);
    }
    const std::int64_t count = std::min(kAtOnce, r.columns - i);
    for (std::int64_t k = 0; k < count; ++k) {
      r.to[i + k] = static_cast<T>(words[k]) * static_cast<T>(0x1p-32) < r.p[i + k] ? T(1) : T(0);
    }
  }
}
PLEIAD_CLONES void run_clones(const SampleRow<float>& r) { binary_row(r); }
PLEIAD_CLONES void run_clones(const SampleRow<double>& r) { binary_row(r); }
PLEIAD_V4 void run_v4(const SampleRow<float>& r) { binary_row<float, true>(r); }
PLEIAD_V4 void run_v4(const SampleRow<double>& r) { binary_row<double, true>(r); }
template <class T>
void run_binary(const SampleRow<T>& r) {
  static const bool v4 = cpu_level() == Level::v4;
  v4 ? run_v4(r) : run_clones(r);
}

template <class T>
struct ContrastColumns {
  const T* rows;
  T* to;
  std::int64_t positive, all, stride, first, last;
  T down, up;
};
template <class T>
PLEIAD_INLINE void contrast(const ContrastColumns<T>& j) {
  T* __restrict to = j.to;
  for (std::int64_t c = j.first; c < j.last; ++c) to[c] = 0;
  for (std::int64_t r = 0; r < j.all; ++r) {
    const T factor = r < j.positive ? j.down : j.up;
    const T* row = j.rows + r * j.stride;
    for (std::int64_t c = j.first; c < j.last; ++c) to[c] += factor * row[c];
  }
}
PLEIAD_CLONES void run_contrast(const ContrastColumns<float>& j) { contrast(j); }
PLEIAD_CLONES void run_contrast(const ContrastColumns<double>& j) { contrast(j); }

std::int64_t grain_of(std::int64_t columns) {
  return std::max<std::int64_t>(1, 4096 / std::max<std::int64_t>(columns, 1));
}

}  // namespace

void sample_binary(const Draw& draw, const Tensor& p, const Tensor& to) {
  const std::int64_t rows = p.shape()[0];
  const std::int64_t columns = p.count() / std::max<std::int64_t>(rows, 1);
  by_type(p.dtype(), [&]<class T>(T) {
    parallel_for(rows, grain_of(columns), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        run_binary(SampleRow<T>{data<T>(p) + r * columns, data<T>(to) + r * columns, columns, draw.stream.philox().key,
                                draw.first_block, static_cast<std::uint32_t>(draw.first_sample + r), draw.step});
      }
    });
  });
}

void sample_gaussian(const Draw& draw, const Tensor& mean, const Tensor& to) {
  const std::int64_t rows = mean.shape()[0];
  const std::int64_t columns = mean.count() / std::max<std::int64_t>(rows, 1);
  by_type(mean.dtype(), [&]<class T>(T) {
    parallel_for(rows, grain_of(columns * 16), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin * columns; i < end * columns; ++i) {
        const auto column = static_cast<std::uint64_t>(i % columns);
        const auto sample = static_cast<std::uint32_t>(draw.first_sample + i / columns);
        data<T>(to)[i] =
            data<T>(mean)[i] + static_cast<T>(draw.stream.gaussian(2 * draw.first_block + column, sample, draw.step));
      }
    });
  });
}

void contrast_columns(const Tensor& rows, std::int64_t positive, double factor, const Tensor& to) {
  const std::int64_t all = rows.shape()[0];
  const std::int64_t columns = rows.count() / all;
  by_type(rows.dtype(), [&]<class T>(T) {
    parallel_for(columns, std::max<std::int64_t>(64, 32768 / all), [&](std::int64_t first, std::int64_t last) {
      run_contrast(ContrastColumns<T>{data<T>(rows), data<T>(to), positive, all, columns, first, last,
                                      static_cast<T>(-factor / static_cast<double>(positive)),
                                      static_cast<T>(factor / static_cast<double>(all - positive))});
    });
  });
}

}  // namespace pleiad::kernel

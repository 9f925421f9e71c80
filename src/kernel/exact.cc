#include "kernel/exact.h"

#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "kernel/types.h"

namespace pleiad::kernel {
namespace {

constexpr int kLowest = 160;     // the lowest bit stands for 2^-160
constexpr int kBias = 1075;      // a double is mantissa * 2^(exponent field - 1075)
constexpr int kTop = 1023 + 94;  // exponent fields from this value on are out of range
constexpr std::size_t kDigits = ExactSums::kWords - 1;
__extension__ using Wide = unsigned __int128;

/// Calls tap(index in x, index in weight) for each position of an output's window that is inside the image.
template <class Tap>
void taps(const Conv& c, std::int64_t n, std::int64_t i, std::int64_t j, std::int64_t o, Tap&& tap) {
  const std::int64_t in = c.in_c / c.groups;
  const std::int64_t group = o / (c.out_c / c.groups);
  for (std::int64_t u = 0; u < c.h.size; ++u) {
    const std::int64_t row = i * c.h.stride - c.h.pad_begin + u * c.h.dilation;
    if (row < 0 || row >= c.in_h) continue;
    for (std::int64_t v = 0; v < c.w.size; ++v) {
      const std::int64_t column = j * c.w.stride - c.w.pad_begin + v * c.w.dilation;
      if (column < 0 || column >= c.in_w) continue;
      tap(((n * c.in_h + row) * c.in_w + column) * c.in_c + group * in, ((o * c.h.size + u) * c.w.size + v) * in);
    }
  }
}

std::int64_t columns_of(const Tensor& x) { return x.shape()[x.shape().rank() - 1]; }

}  // namespace

void ExactSums::add(std::int64_t sum, double term) {
  std::int64_t* const to = words_.data() + sum * kWords;
  const auto bits = std::bit_cast<std::uint64_t>(term);
  const int exponent = static_cast<int>(bits >> 52U) & 0x7ff;
  if (exponent >= kTop) {
    to[kDigits] += 1;
    return;
  }
  if (exponent == 0) return;  // 0, or far below the lowest bit
  std::uint64_t mantissa = (bits & ((std::uint64_t{1} << 52U) - 1)) | (std::uint64_t{1} << 52U);
  int position = exponent - kBias + kLowest;
  if (position < 0) {
    if (position <= -53) return;
    mantissa >>= static_cast<unsigned>(-position);
    position = 0;
  }
  const Wide shifted = static_cast<Wide>(mantissa) << static_cast<unsigned>(position % 32);
  const std::int64_t sign = bits >> 63U != 0 ? -1 : 1;
  std::int64_t* const at = to + position / 32;
  at[0] += sign * static_cast<std::int64_t>(static_cast<std::uint32_t>(shifted));
  at[1] += sign * static_cast<std::int64_t>(static_cast<std::uint32_t>(shifted >> 32U));
  if (const auto high = static_cast<std::uint32_t>(shifted >> 64U); high != 0) at[2] += sign * std::int64_t{high};
}

double ExactSums::value(std::int64_t sum) const {
  const std::int64_t* const from = words_.data() + sum * kWords;
  if (from[kDigits] != 0) return std::numeric_limits<double>::quiet_NaN();
  std::array<std::uint64_t, kDigits + 1> digits{};  // digits of 32 bits; the last one holds the sign
  std::int64_t carry = 0;
  for (std::size_t i = 0; i < kDigits; ++i) {
    const std::int64_t word = from[i] + carry;
    digits[i] = static_cast<std::uint64_t>(word) & 0xffffffffU;
    carry = word >> 32;
  }
  const bool negative = carry < 0;
  digits[kDigits] = static_cast<std::uint64_t>(carry) & 0xffffffffU;
  if (negative) {
    std::uint64_t more = 1;
    for (std::uint64_t& digit : digits) {
      const std::uint64_t turned = (~digit & 0xffffffffU) + more;
      digit = turned & 0xffffffffU;
      more = turned >> 32U;
    }
  }
  std::size_t top = kDigits;
  while (top > 0 && digits[top] == 0) --top;
  const std::size_t first = top < 2 ? 0 : top - 2;  // uses the 96 highest bits, rounded once
  Wide number = 0;
  for (std::size_t i = top + 1; i-- > first;) number = number << 32U | digits[i];
  const double size = std::ldexp(static_cast<double>(number), static_cast<int>(first) * 32 - kLowest);
  return negative ? -size : size;
}

void ExactSums::put(const Tensor& to, std::int64_t first) const {
  by_type(to.dtype(), [&]<class T>(T) {
    for (std::int64_t i = 0; i < to.count(); ++i) data<T>(to)[i] = static_cast<T>(value(first + i));
  });
}

void exact_dense(const Dense& d, const Tensor& x, const Tensor& weight, ExactSums& sums) {
  by_type(x.dtype(), [&]<class T>(T) {
    for (std::int64_t n = 0; n < d.batch; ++n) {
      for (std::int64_t o = 0; o < d.out; ++o) {
        for (std::int64_t k = 0; k < d.in; ++k) {
          const T w = data<T>(weight)[d.transposed ? k * d.out + o : o * d.in + k];
          sums.add(n * d.out + o, static_cast<double>(data<T>(x)[n * d.in + k]) * static_cast<double>(w));
        }
      }
    }
  });
}

void ordered_dense(const Dense& d, const Tensor& x, const Tensor& weight, const Tensor& bias, ExactSums& sums,
                   const Tensor& y) {
  if (sums.count() != y.count()) sums = ExactSums(y.count());
  sums.clear();
  exact_dense(d, x, weight, sums);
  sums.put(y);
  activate_columns(y.dtype(), d.activation, y.raw(), bias.raw(), d.batch, d.out, 0, d.out);
}

void ordered_dense_backward(const Dense& d, const Tensor& x, const Tensor& weight, const Tensor& y, const Tensor& dy,
                            const DenseGradients& to) {
  activation_gradient(d.activation, y, dy, to.bias_gradient.raw(), d.out);
  const auto at = [&](std::int64_t o, std::int64_t k) { return d.transposed ? k * d.out + o : o * d.in + k; };
  by_type(x.dtype(), [&]<class T>(T) {
    if (!to.dx.empty()) to.dx.fill(0);
    if (!to.weight_gradient.empty()) to.weight_gradient.fill(0);
    for (std::int64_t n = 0; n < d.batch; ++n) {
      for (std::int64_t o = 0; o < d.out; ++o) {
        const T gradient = data<T>(dy)[n * d.out + o];
        for (std::int64_t k = 0; !to.dx.empty() && k < d.in; ++k) {
          data<T>(to.dx)[n * d.in + k] += gradient * data<T>(weight)[at(o, k)];
        }
        for (std::int64_t k = 0; !to.weight_gradient.empty() && k < d.in; ++k) {
          data<T>(to.weight_gradient)[at(o, k)] += gradient * data<T>(x)[n * d.in + k];
        }
      }
    }
  });
}

void exact_conv_gradient(const Conv& c, const Tensor& x, const Tensor& dy, ExactSums& sums) {
  const std::int64_t in = c.in_c / c.groups;
  const std::int64_t bias = c.out_c * c.h.size * c.w.size * in;
  by_type(x.dtype(), [&]<class T>(T) {
    for (std::int64_t place = 0; place < c.batch * c.out_h * c.out_w; ++place) {
      const std::int64_t n = place / (c.out_h * c.out_w);
      for (std::int64_t o = 0; o < c.out_c; ++o) {
        const auto d = static_cast<double>(data<T>(dy)[place * c.out_c + o]);
        if (d == 0) continue;
        if (c.bias) sums.add(bias + o, d);
        taps(c, n, place / c.out_w % c.out_h, place % c.out_w, o, [&](std::int64_t from, std::int64_t w) {
          for (std::int64_t k = 0; k < in; ++k) sums.add(w + k, d * static_cast<double>(data<T>(x)[from + k]));
        });
      }
    }
  });
}

void exact_columns(const Tensor& x, ExactSums& sums) {
  const std::int64_t columns = columns_of(x);
  by_type(x.dtype(), [&]<class T>(T) {
    for (std::int64_t i = 0; i < x.count(); ++i) sums.add(i % columns, static_cast<double>(data<T>(x)[i]));
  });
}

void exact_squares(const Tensor& x, const Tensor& mean, ExactSums& sums) {
  const std::int64_t columns = columns_of(x);
  by_type(x.dtype(), [&]<class T>(T) {
    for (std::int64_t i = 0; i < x.count(); ++i) {
      const double off = static_cast<double>(data<T>(x)[i]) - static_cast<double>(data<T>(mean)[i % columns]);
      sums.add(i % columns, off * off);
    }
  });
}

void exact_norm_gradients(const Tensor& x, const Tensor& mean, const Tensor& variance, double epsilon, const Tensor& dy,
                          ExactSums& sums) {
  const std::int64_t columns = columns_of(x);
  by_type(x.dtype(), [&]<class T>(T) {
    for (std::int64_t i = 0; i < x.count(); ++i) {
      const std::int64_t c = i % columns;
      const auto d = static_cast<double>(data<T>(dy)[i]);
      const double off = static_cast<double>(data<T>(x)[i]) - static_cast<double>(data<T>(mean)[c]);
      sums.add(c, d * (off / std::sqrt(static_cast<double>(data<T>(variance)[c]) + epsilon)));
      sums.add(columns + c, d);
    }
  });
}

}  // namespace pleiad::kernel

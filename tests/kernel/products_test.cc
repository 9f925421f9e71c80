// Compares the matrix products of kernel/blas with plain loops: random shapes, both types, any split of the columns, k
// and rows. Runs compiled for each instruction set (PLEIAD_CPU_LEVEL).
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernel/blas/panels.h"
#include "kernel/blas/picked.h"
#include "pleiad/tensor.h"

namespace pleiad::kernel {
namespace {

template <class T>
class Products : public testing::Test {
 protected:
  static constexpr double kTolerance = sizeof(T) == 4 ? 1e-5 : 1e-13;
  static constexpr T kNan = std::numeric_limits<T>::quiet_NaN();
  std::mt19937 random_{1};

  std::int64_t pick(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  std::vector<T> numbers(std::int64_t count) {
    std::vector<T> out(static_cast<std::size_t>(count));
    for (T& x : out) x = static_cast<T>(std::uniform_real_distribution<double>(-1, 1)(random_));
    return out;
  }
  /// Aligned memory that is NaN wherever nothing was packed.
  static Tensor memory(std::int64_t count) {
    Tensor t(dtype_of<T>, {count});
    t.fill(kNan);
    return t;
  }
  static T* of(const Tensor& t) { return static_cast<T*>(t.raw()); }

  /// Splits 0 to `whole` into ranges that begin at multiples of `grain`.
  std::vector<Range> cuts(std::int64_t whole, std::int64_t grain) {
    std::vector<Range> out;
    for (std::int64_t at = 0; at < whole;) {
      const std::int64_t end = std::min(whole, at + grain * pick(1, 5));
      out.push_back({at, end});
      at = end;
    }
    return out;
  }
};

using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(Products, Types);

TYPED_TEST(Products, OfLaidOutSidesAreThoseOfPlainLoops) {
  using T = TypeParam;
  for (int draw = 0; draw < 60; ++draw) {
    SCOPED_TRACE(draw);
    const bool deep = draw % 10 == 0;  // more than one pass over k
    const std::int64_t m = this->pick(1, 60), n = this->pick(1, 130),
                       k = deep ? this->pick(760, 1700) : this->pick(1, 90);
    const bool left_turned = this->pick(0, 1) == 1, right_turned = this->pick(0, 1) == 1;
    const std::int64_t more = this->pick(0, 3);  // the distance between rows is greater than their length
    const Product p{.m = m,
                    .n = n,
                    .k = k,
                    .alpha = this->pick(0, 1) == 0 ? 1.0 : -0.5,
                    .beta = static_cast<double>((draw + draw / 10) % 3) / 2};
    const std::int64_t a_stride = (left_turned ? m : k) + more, b_stride = (right_turned ? k : n) + more;
    const std::vector<T> a = this->numbers((left_turned ? k : m) * a_stride);
    const std::vector<T> b = this->numbers((right_turned ? n : k) * b_stride);
    const std::int64_t c_stride = n + more;
    std::vector<T> given = this->numbers(m * c_stride);
    if (p.beta == 0) given.assign(given.size(), TestFixture::kNan);  // is not read
    const auto at = [&](const std::vector<T>& v, bool turned, std::int64_t stride, std::int64_t i, std::int64_t j) {
      return v[static_cast<std::size_t>(turned ? j * stride + i : i * stride + j)];
    };

    const Tensor left = TestFixture::memory(m * k), right = TestFixture::memory(right_size(k, n));
    const Operand left_given{.data = a.data(), .stride = a_stride, .transposed = left_turned};
    const Operand right_given{.data = b.data(), .stride = b_stride, .transposed = right_turned};
    for (const Range rows : this->cuts(m, 1)) {
      for (const Range columns : this->cuts(k, 7)) pack_left<T>(left_given, m, k, rows, columns, TestFixture::of(left));
    }
    for (const Range columns : this->cuts(n, kPanel<T>))
      pack_right<T>(right_given, k, n, columns, TestFixture::of(right));
    std::vector<T> made = given;
    for (const Range columns : this->cuts(n, kPanel<T>)) {
      multiply<T>(p, TestFixture::of(left), TestFixture::of(right), columns, made.data(), c_stride);
    }
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < c_stride; ++j) {
        const auto where = static_cast<std::size_t>(i * c_stride + j);
        if (j >= n) {  // elements between the rows must not be written
          ASSERT_TRUE(made[where] == given[where] || p.beta == 0) << i << " " << j;
          ASSERT_EQ(std::isnan(made[where]), std::isnan(given[where])) << i << " " << j;
          continue;
        }
        double sum = p.beta == 0 ? 0 : p.beta * static_cast<double>(given[where]);
        for (std::int64_t l = 0; l < k; ++l) {
          sum += p.alpha * static_cast<double>(at(a, left_turned, a_stride, i, l)) *
                 static_cast<double>(at(b, right_turned, b_stride, l, j));
        }
        const double near = TestFixture::kTolerance * std::sqrt(static_cast<double>(k) + 1) * 4;
        ASSERT_NEAR(made[where], sum, near) << m << " x " << n << " x " << k << " at " << i << ", " << j;
      }
    }
  }
}

TYPED_TEST(Products, AnElementIsBitIdenticalHoweverTheBatchIsSplit) {
  using T = TypeParam;
  const std::int64_t m = 45, n = 70, k = 900;
  const std::vector<T> a = this->numbers(m * k), b = this->numbers(k * n);
  const auto product = [&](Range rows) {
    const std::int64_t count = rows.end - rows.begin;
    const Tensor left = TestFixture::memory(count * k);
    pack_left<T>({.data = a.data() + rows.begin * k, .stride = k}, count, k, {0, count}, {0, k}, TestFixture::of(left));
    std::vector<T> c(static_cast<std::size_t>(count * n));
    const Tensor right = TestFixture::memory(right_size(k, n));
    pack_right<T>({.data = b.data(), .stride = n}, k, n, {0, n}, TestFixture::of(right));
    multiply<T>({.m = count, .n = n, .k = k}, TestFixture::of(left), TestFixture::of(right), {0, n}, c.data(), n);
    return c;
  };
  const std::vector<T> whole = product({0, m});
  for (const Range rows : {Range{0, 1}, Range{1, 20}, Range{20, 45}}) {
    const std::vector<T> part = product(rows);
    for (std::size_t i = 0; i < part.size(); ++i)
      ASSERT_EQ(part[i], whole[static_cast<std::size_t>(rows.begin * n) + i]);
  }
}

TYPED_TEST(Products, OfZerosAndOnesAreSumsOfRows) {
  using T = TypeParam;
  for (int draw = 0; draw < 40; ++draw) {
    SCOPED_TRACE(draw);
    const std::int64_t m = this->pick(1, 40), n = this->pick(1, 60), k = this->pick(1, 300),
                       c_stride = n + this->pick(0, 3);
    std::vector<T> a = this->numbers(m * k);
    for (T& x : a) x = x > 0.2 ? T(1) : T(0);
    const std::vector<T> b = this->numbers(k * n);
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(m * code_size(k)), 0xff);
    for (const Range rows : this->cuts(m, 1)) pick_codes<T>(a.data(), m, k, rows, codes.data());
    const Tensor packed = TestFixture::memory(right_size(k, n));
    pack_right<T>({.data = b.data(), .stride = n}, k, n, {0, n}, TestFixture::of(packed));
    const Rows<T> rows_of_b = draw % 2 == 0 ? plain_rows(b.data(), n) : packed_rows<T>(TestFixture::of(packed), k);
    std::vector<T> c(static_cast<std::size_t>(m * c_stride), TestFixture::kNan);
    for (const Range columns : this->cuts(n, kPanel<T>)) {
      add_picked<T>({.m = m, .n = n, .k = k}, codes.data(), rows_of_b, columns, c.data(), c_stride);
    }
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < c_stride; ++j) {
        const T got = c[static_cast<std::size_t>(i * c_stride + j)];
        if (j >= n) {
          ASSERT_TRUE(std::isnan(got)) << i << " " << j;
          continue;
        }
        double sum = 0;
        for (std::int64_t l = 0; l < k; ++l) {
          sum += static_cast<double>(a[static_cast<std::size_t>(i * k + l)]) *
                 static_cast<double>(b[static_cast<std::size_t>(l * n + j)]);
        }
        ASSERT_NEAR(got, sum, TestFixture::kTolerance * std::sqrt(static_cast<double>(k)) * 4) << i << " " << j;
      }
    }
  }
}

}  // namespace
}  // namespace pleiad::kernel

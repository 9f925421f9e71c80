// The arithmetic of deterministic mode: sums that are bit-identical in any order of their terms and for any
// distribution over ranks, and products in one fixed order. Not optimised for speed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernel/conv.h"
#include "kernel/dense.h"
#include "pleiad/tensor.h"

namespace pleiad::kernel {

/// Fixed-point sums of 256 bits each, from 2^-160 to 2^96. Each sum consists of 32-bit digits in int64 words, so that
/// sums of several ranks can be added word by word, for up to 2^31 terms. The part of a term below 2^-160 is cut off. A
/// term of 2^94 or more, an infinity or a NaN makes its sum NaN; the last word counts such terms.
class ExactSums {
 public:
  static constexpr std::int64_t kWords = 9;

  explicit ExactSums(std::int64_t count = 0) : words_(static_cast<std::size_t>(count * kWords)) {}
  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(words_.size()) / kWords; }
  void clear() { words_.assign(words_.size(), 0); }
  void add(std::int64_t sum, double term);
  /// Returns the sum, rounded to double.
  [[nodiscard]] double value(std::int64_t sum) const;
  /// Stores to.count() sums in `to`, starting with sum number `first`.
  void put(const Tensor& to, std::int64_t first = 0) const;
  /// Returns the words, which may be added to those of other ranks.
  [[nodiscard]] std::span<std::int64_t> words() { return words_; }

 private:
  std::vector<std::int64_t> words_;
};

/// Adds x * weight^T, (batch, out), over the inputs that are present.
void exact_dense(const Dense& d, const Tensor& x, const Tensor& weight, ExactSums& sums);
/// Computes y = f(x * weight^T + bias). `sums` is scratch memory.
void ordered_dense(const Dense& d, const Tensor& x, const Tensor& weight, const Tensor& bias, ExactSums& sums,
                   const Tensor& y);
/// Like dense_backward without an update. Sums every element in the order of the samples or outputs.
void ordered_dense_backward(const Dense& d, const Tensor& x, const Tensor& weight, const Tensor& y, const Tensor& dy,
                            const DenseGradients& to);

/// Adds the gradients of a convolution by weight and, after it, by bias if there is one.
void exact_conv_gradient(const Conv& c, const Tensor& x, const Tensor& dy, ExactSums& sums);

/// exact_columns adds x to the sum of its column, for x of (rows, columns). exact_squares adds (x - mean)^2.
void exact_columns(const Tensor& x, ExactSums& sums);
void exact_squares(const Tensor& x, const Tensor& mean, ExactSums& sums);
/// Adds the gradients of a batch normalisation by scale and, after them, by shift.
void exact_norm_gradients(const Tensor& x, const Tensor& mean, const Tensor& variance, double epsilon, const Tensor& dy,
                          ExactSums& sums);

}  // namespace pleiad::kernel

// What deterministic mode computes with: sums whose bits do not depend on the order of their terms, nor on how they are
// shared out among ranks; and products in one fixed order. No speed is promised.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernel/conv.h"
#include "kernel/dense.h"
#include "pleiad/tensor.h"

namespace pleiad::kernel {

/// Sums in fixed point, 256 bits from 2^-160 to 2^96 each: words of 32 bits, each in an int64, so that sums of several
/// ranks are added word by word, up to 2^31 terms. What a term has below 2^-160 is cut off; a term of 2^94 or more, or
/// one that is no number, makes its sum NaN (the last word counts them).
class ExactSums {
 public:
  static constexpr std::int64_t kWords = 9;

  explicit ExactSums(std::int64_t count = 0) : words_(static_cast<std::size_t>(count * kWords)) {}
  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(words_.size()) / kWords; }
  void clear() { words_.assign(words_.size(), 0); }
  void add(std::int64_t sum, double term);
  /// The sum, rounded.
  [[nodiscard]] double value(std::int64_t sum) const;
  /// As many as `to` has, from the sum `first` on.
  void put(const Tensor& to, std::int64_t first = 0) const;
  /// To be added to those of others.
  [[nodiscard]] std::span<std::int64_t> words() { return words_; }

 private:
  std::vector<std::int64_t> words_;
};

/// Adds x * weight^T, (batch, out), over the inputs that there are.
void exact_dense(const Dense& d, const Tensor& x, const Tensor& weight, ExactSums& sums);
/// y = f(x * weight^T + bias).
void ordered_dense(const Dense& d, const Tensor& x, const Tensor& weight, const Tensor& bias, ExactSums& sums,
                   const Tensor& y);
/// As dense_backward, without an update: each number is summed in the order of samples or outputs.
void ordered_dense_backward(const Dense& d, const Tensor& x, const Tensor& weight, const Tensor& y, const Tensor& dy,
                            const DenseGradients& to);

/// Adds the gradients by weight and bias (behind the weight's, where there is one) of a convolution.
void exact_conv_gradient(const Conv& c, const Tensor& x, const Tensor& dy, ExactSums& sums);

/// Adds, for each column of (rows, columns), the sum of x; with a mean, of (x - mean)^2.
void exact_columns(const Tensor& x, ExactSums& sums);
void exact_squares(const Tensor& x, const Tensor& mean, ExactSums& sums);
/// The gradients by scale and, behind them, by shift of a batch normalisation.
void exact_norm_gradients(const Tensor& x, const Tensor& mean, const Tensor& variance, double epsilon, const Tensor& dy,
                          ExactSums& sums);

}  // namespace pleiad::kernel

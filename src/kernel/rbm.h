// The operations of a restricted Boltzmann machine besides dense products: sampling of units, and the difference
// between the two phases.
#pragma once

#include "core/random.h"
#include "pleiad/tensor.h"

namespace pleiad::kernel {

/// Selects the random numbers of a draw: (step, first_sample + row, 4 * first_block + column).
struct Draw {
  RandomStream stream;
  std::uint32_t step = 0;
  std::int64_t first_sample = 0;
  std::uint64_t first_block = 0;
};

/// Sets to[r, c] to 1 with probability p[r, c], else to 0. `to` may be `p`.
void sample_binary(const Draw& draw, const Tensor& p, const Tensor& to);
/// Sets to[r, c] to mean[r, c] + N(0, 1). `to` may be `mean`.
void sample_gaussian(const Draw& draw, const Tensor& mean, const Tensor& to);

/// Sets to[c] to factor * (mean of column c over the rows from `positive` on - mean over the first `positive` rows).
void contrast_columns(const Tensor& rows, std::int64_t positive, double factor, const Tensor& to);

}  // namespace pleiad::kernel

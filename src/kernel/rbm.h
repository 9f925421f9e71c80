// What a restricted Boltzmann machine needs beside dense products: samples of its units, and the contrast of two
// phases.
#pragma once

#include "core/random.h"
#include "pleiad/tensor.h"

namespace pleiad::kernel {

/// Which numbers of a stream a draw takes: those of (step, first_sample + row, 4 * first_block + column).
struct Draw {
  RandomStream stream;
  std::uint32_t step = 0;
  std::int64_t first_sample = 0;
  std::uint64_t first_block = 0;
};

/// to[r, c] = 1 with probability p[r, c], else 0. `to` may be `p`.
void sample_binary(const Draw& draw, const Tensor& p, const Tensor& to);
/// to[r, c] = mean[r, c] + N(0, 1). `to` may be `mean`.
void sample_gaussian(const Draw& draw, const Tensor& mean, const Tensor& to);

/// to[c] = factor * (the mean of column c over the rows from `positive` on - that over the first `positive` rows).
void contrast_columns(const Tensor& rows, std::int64_t positive, double factor, const Tensor& to);

}  // namespace pleiad::kernel

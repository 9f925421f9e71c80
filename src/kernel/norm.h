// Batch normalisation over the last axis, and dropout.
#pragma once

#include "core/random.h"
#include "pleiad/grid.h"
#include "pleiad/tensor.h"

namespace pleiad::kernel {

/// mean[c] and variance[c] of column c.
void column_moments(const Tensor& x, const Tensor& mean, const Tensor& variance);
/// y = (x - mean) * scale / sqrt(variance + epsilon) + shift.
void normalise(const Tensor& x, const Tensor& mean, const Tensor& variance, double epsilon, const Tensor& scale,
               const Tensor& shift, const Tensor& y);
/// The gradients by scale and shift.
void normalise_gradients(const Tensor& x, const Tensor& mean, const Tensor& variance, double epsilon, const Tensor& dy,
                         const Tensor& scale_gradient, const Tensor& shift_gradient);
/// The gradient by x, through the mean and variance too, which are of `rows` rows: x and others like it, over which the
/// gradients by scale and shift are summed here.
void normalise_input_gradient(const Tensor& x, const Tensor& mean, const Tensor& variance, double epsilon,
                              const Tensor& scale, const Tensor& dy, const Tensor& dx, const Tensor& scale_gradient,
                              const Tensor& shift_gradient, std::int64_t rows);

/// y = x * mask, where mask is 0 for a share `ratio` of the elements and 1 / (1 - ratio) for the others: numbers of
/// (step, sample, element), so they do not depend on how a batch is cut.
void dropout(const RandomStream& stream, std::uint32_t step, std::int64_t first_sample, double ratio, const Tensor& x,
             const Tensor& y, const Tensor& mask);
/// The same for the places `tile` of images of `width` columns, (batch, rows, columns, channels).
void dropout_tile(const RandomStream& stream, std::uint32_t step, std::int64_t first_sample, double ratio,
                  const Rect& tile, std::int64_t width, const Tensor& x, const Tensor& y, const Tensor& mask);
/// to = (1 - share) * to + share * factor * from.
void blend(const Tensor& to, const Tensor& from, double share, double factor);
/// to = a * b.
void multiply(const Tensor& a, const Tensor& b, const Tensor& to);

}  // namespace pleiad::kernel

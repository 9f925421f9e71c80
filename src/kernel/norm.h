// Batch normalisation over the last axis, and dropout.
#pragma once

#include "core/random.h"
#include "pleiad/grid.h"
#include "pleiad/tensor.h"

namespace pleiad::kernel {

/// Computes the mean and the variance of each column.
void column_moments(const Tensor& x, const Tensor& mean, const Tensor& variance);
/// Computes y = (x - mean) * scale / sqrt(variance + epsilon) + shift.
void normalise(const Tensor& x, const Tensor& mean, const Tensor& variance, double epsilon, const Tensor& scale,
               const Tensor& shift, const Tensor& y);
/// Computes the gradients by scale and shift.
void normalise_gradients(const Tensor& x, const Tensor& mean, const Tensor& variance, double epsilon, const Tensor& dy,
                         const Tensor& scale_gradient, const Tensor& shift_gradient);
/// Computes the gradient by x, also through mean and variance. These, and the given gradients by scale and shift, are
/// taken over `rows` rows: those of x and of other tensors like it.
void normalise_input_gradient(const Tensor& x, const Tensor& mean, const Tensor& variance, double epsilon,
                              const Tensor& scale, const Tensor& dy, const Tensor& dx, const Tensor& scale_gradient,
                              const Tensor& shift_gradient, std::int64_t rows);

/// Computes y = x * mask. The mask is 0 for a fraction `ratio` of the elements and 1 / (1 - ratio) for the others. It
/// depends on (step, sample, element), so it does not depend on how a batch is split.
void dropout(const RandomStream& stream, std::uint32_t step, std::int64_t first_sample, double ratio, const Tensor& x,
             const Tensor& y, const Tensor& mask);
/// Does the same for the region `tile` of images of (batch, rows, columns, channels) with `width` columns.
void dropout_tile(const RandomStream& stream, std::uint32_t step, std::int64_t first_sample, double ratio,
                  const Rect& tile, std::int64_t width, const Tensor& x, const Tensor& y, const Tensor& mask);
/// Computes to = (1 - share) * to + share * factor * from.
void blend(const Tensor& to, const Tensor& from, double share, double factor);
/// Computes to = a * b.
void multiply(const Tensor& a, const Tensor& b, const Tensor& to);

}  // namespace pleiad::kernel

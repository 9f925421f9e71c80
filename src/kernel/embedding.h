// Rows of a table by index: embeddings and one-hot vectors. Indices are int32.
#pragma once

#include "pleiad/tensor.h"

namespace pleiad::kernel {

/// Throws InvalidArgument with the position of the first index outside [0, count).
void check_indices(const Tensor& index, std::int64_t count);
/// Computes y[i] = table[index[i]]. table: (count, width). Checks the indices.
void embed(const Tensor& index, const Tensor& table, const Tensor& y);
/// Sets gradient[r] to the sum of dy[i] over index[i] == r, in the order of i.
void embed_backward(const Tensor& index, const Tensor& dy, const Tensor& gradient);
/// Sets y[i] to `value` at index[i] and to 0 elsewhere. Checks the indices.
void one_hot(const Tensor& index, std::int64_t count, double value, const Tensor& y);

/// Sets index[r] to the positions of the `count` largest values of row r, largest first. Equal values keep their order.
void argsort(const Tensor& x, const Tensor& index);

}  // namespace pleiad::kernel

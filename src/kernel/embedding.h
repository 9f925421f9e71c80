// Rows of a table by index: embeddings, one-hot vectors. Indices are int32.
#pragma once

#include "pleiad/tensor.h"

namespace pleiad::kernel {

/// An index out of 0 to count - 1 is an InvalidArgument that names its place.
void check_indices(const Tensor& index, std::int64_t count);
/// y[i] = table[index[i]]; table: (count, width). Indices are checked.
void embed(const Tensor& index, const Tensor& table, const Tensor& y);
/// gradient[r] = the sum of dy[i] where index[i] == r, in the order of i.
void embed_backward(const Tensor& index, const Tensor& dy, const Tensor& gradient);
/// y[i] = `value` at index[i], 0 elsewhere. Indices are checked.
void one_hot(const Tensor& index, std::int64_t count, double value, const Tensor& y);

/// index[r] = the places of the `count` largest numbers of row r, the largest first; of equal ones the first.
void argsort(const Tensor& x, const Tensor& index);

}  // namespace pleiad::kernel

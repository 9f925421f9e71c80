// Tensors as NumPy arrays and back, without copies.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>

#include "pleiad/tensor.h"

namespace pleiad::python {

/// An array that is the tensor's memory, and keeps it.
[[nodiscard]] nanobind::object array_of(const Tensor& tensor);
[[nodiscard]] nanobind::dict arrays_of(const std::vector<std::pair<std::string, Tensor>>& tensors);
/// A tensor that is the array's memory, and keeps the array. `where` begins the message of an error.
[[nodiscard]] Tensor tensor_of(nanobind::handle array, std::string_view where);

void bind_nets(nanobind::module_& m);
void bind_training(nanobind::module_& m);
void bind_stacks(nanobind::module_& m);

}  // namespace pleiad::python

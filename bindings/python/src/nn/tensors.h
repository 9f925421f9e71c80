// Conversion between tensors and NumPy arrays, without copies.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>

#include "pleiad/tensor.h"

namespace pleiad::python {

/// Returns an array that shares the tensor's memory and keeps it alive.
[[nodiscard]] nanobind::object array_of(const Tensor& tensor);
[[nodiscard]] nanobind::dict arrays_of(const std::vector<std::pair<std::string, Tensor>>& tensors);
/// Returns a tensor that shares the array's memory and keeps the array alive. `where` is the prefix of error messages.
[[nodiscard]] Tensor tensor_of(nanobind::handle array, std::string_view where);
[[nodiscard]] std::vector<std::pair<std::string, Tensor>> tensors_of(const nanobind::dict& arrays, const char* where);

void bind_data(nanobind::module_& m);
void bind_nets(nanobind::module_& m);
void bind_training(nanobind::module_& m);
void bind_stacks(nanobind::module_& m);

}  // namespace pleiad::python

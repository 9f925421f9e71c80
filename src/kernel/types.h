// Dispatches from the element type of a tensor to a template argument. Kernels do this only here.
#pragma once

#include <fmt/format.h>

#include "pleiad/error.h"
#include "pleiad/tensor.h"

namespace pleiad::kernel {

/// Calls body(float{}) or body(double{}).
template <class Body>
void by_type(DType dtype, Body&& body) {
  if (dtype == DType::float32) {
    body(float{});
  } else if (dtype == DType::float64) {
    body(double{});
  } else {
    throw InvalidArgument(fmt::format("expected dtype float32 or float64; received {}", name_of(dtype)));
  }
}

template <class T>
T* data(const Tensor& tensor) {
  return static_cast<T*>(tensor.raw());
}

}  // namespace pleiad::kernel

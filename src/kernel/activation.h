// Element-wise functions whose derivative can be computed from their result, so that backward needs no input.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pleiad/tensor.h"

namespace pleiad::kernel {

enum class Function : std::uint8_t { linear, relu, leaky, sigmoid, tanh, stanh, softplus };

struct Activation {
  Function function = Function::linear;
  double slope = 0.01;  ///< leaky: y = slope * x for x < 0
};

/// Returns the names of all functions. stanh(x) = 1.7159047 * tanh(0.66666667 * x).
[[nodiscard]] std::vector<std::string> function_names();
/// Throws InvalidArgument that lists the known names if `name` is unknown.
[[nodiscard]] Function function_named(std::string_view name);

/// Computes y[r, c] = f(y[r, c] + bias[c]) for the columns [first, last) of a matrix with `stride` columns, on the
/// calling thread. `bias` may be null.
void activate_columns(DType dtype, const Activation& f, void* y, const void* bias, std::int64_t rows,
                      std::int64_t stride, std::int64_t first, std::int64_t last);
/// Replaces dy by dy * f'(x), given y = f(x). Unless it is null, sets bias_gradient[c] to the sum of column c.
void activation_gradient(const Activation& f, const Tensor& y, const Tensor& dy, void* bias_gradient,
                         std::int64_t columns);
/// activate computes y = f(x). activate_backward computes dx = dy * f'(x), given y.
void activate(const Activation& f, const Tensor& x, const Tensor& y);
void activate_backward(const Activation& f, const Tensor& y, const Tensor& dy, const Tensor& dx);

}  // namespace pleiad::kernel

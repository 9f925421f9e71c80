#include "kernel/activation.h"

#include <algorithm>

#include "core/clones.h"
#include "core/text.h"
#include "core/threads.h"
#include "kernel/math.h"
#include "kernel/types.h"

namespace pleiad::kernel {
namespace {

constexpr double kStanhOut = 1.7159047;
constexpr double kStanhIn = 0.66666667;
constexpr std::int64_t kGrain = 4096;  // minimum number of elements per thread; fewer do not pay

struct NamedFunction {
  const char* name;
  Function function;
};
constexpr NamedFunction kFunctions[] = {{"leaky", Function::leaky},       {"linear", Function::linear},
                                        {"relu", Function::relu},         {"sigmoid", Function::sigmoid},
                                        {"softplus", Function::softplus}, {"stanh", Function::stanh},
                                        {"tanh", Function::tanh}};

// Each function as a pair: value() takes x; derivative() takes y = f(x).
template <class T, Function F>
PLEIAD_INLINE T value(T x, T slope) {
  if constexpr (F == Function::relu) return x > 0 ? x : (x != x ? x : T(0));
  if constexpr (F == Function::leaky) return x > 0 ? x : slope * x;
  if constexpr (F == Function::sigmoid) return sigmoid_of(x);
  if constexpr (F == Function::tanh) return tanh_of(x);
  if constexpr (F == Function::stanh) return static_cast<T>(kStanhOut) * tanh_of(static_cast<T>(kStanhIn) * x);
  if constexpr (F == Function::softplus) return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
  return x;
}

template <class T, Function F>
PLEIAD_INLINE T derivative(T y, T slope) {
  if constexpr (F == Function::relu) return y > 0 ? T(1) : T(0);
  if constexpr (F == Function::leaky) return y > 0 ? T(1) : slope;
  if constexpr (F == Function::sigmoid) return y * (1 - y);
  if constexpr (F == Function::tanh) return 1 - y * y;
  if constexpr (F == Function::stanh) {
    return static_cast<T>(kStanhIn * kStanhOut) - static_cast<T>(kStanhIn / kStanhOut) * y * y;
  }
  if constexpr (F == Function::softplus) return 1 - std::exp(-y);
  return 1;
}

template <class T>
struct ActivationRow {
  const T* in;
  const T* more;  // the bias, or y in a gradient; may be null
  T* out;
  T* sum;  // may be null
  std::int64_t count;
  T slope;
};

template <class T, Function F>
PLEIAD_INLINE void forward_row(const ActivationRow<T>& r) {
  const T* in = r.in;
  const T* bias = r.more;
  T* out = r.out;
  if (bias == nullptr) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < r.count; ++i) out[i] = value<T, F>(in[i], r.slope);
  } else {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < r.count; ++i) out[i] = value<T, F>(in[i] + bias[i], r.slope);
  }
}

template <class T, Function F>
PLEIAD_INLINE void gradient_row(const ActivationRow<T>& r) {
  const T* dy = r.in;
  const T* y = r.more;
  T* dx = r.out;
  T* __restrict sum = r.sum;
  if (sum == nullptr) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < r.count; ++i) dx[i] = dy[i] * derivative<T, F>(y[i], r.slope);
  } else {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < r.count; ++i) {
      const T d = dy[i] * derivative<T, F>(y[i], r.slope);
      dx[i] = d;
      sum[i] += d;
    }
  }
}

#define PLEIAD_FUNCTION(name, T, F)                                                      \
  PLEIAD_CLONES void forward_##name(const ActivationRow<T>& r) { forward_row<T, F>(r); } \
  PLEIAD_CLONES void gradient_##name(const ActivationRow<T>& r) { gradient_row<T, F>(r); }
#define PLEIAD_BOTH(name)                            \
  PLEIAD_FUNCTION(name##_f32, float, Function::name) \
  PLEIAD_FUNCTION(name##_f64, double, Function::name)
PLEIAD_BOTH(linear)
PLEIAD_BOTH(relu)
PLEIAD_BOTH(leaky)
PLEIAD_BOTH(sigmoid)
PLEIAD_BOTH(tanh)
PLEIAD_BOTH(stanh)
PLEIAD_BOTH(softplus)

template <class T>
using RowKernel = void (*)(const ActivationRow<T>&);

template <class T>
RowKernel<T> pick(Function function, bool gradient) {
#define PLEIAD_PICK(name)                                             \
  case Function::name:                                                \
    if constexpr (std::is_same_v<T, float>)                           \
      return gradient ? gradient_##name##_f32 : forward_##name##_f32; \
    else                                                              \
      return gradient ? gradient_##name##_f64 : forward_##name##_f64;
  switch (function) {
    PLEIAD_PICK(linear)
    PLEIAD_PICK(relu)
    PLEIAD_PICK(leaky)
    PLEIAD_PICK(sigmoid)
    PLEIAD_PICK(tanh)
    PLEIAD_PICK(stanh)
    PLEIAD_PICK(softplus)
  }
  throw InternalError("an activation function without a kernel");
}

}  // namespace

std::vector<std::string> function_names() {
  std::vector<std::string> names;
  for (const NamedFunction& named : kFunctions) names.emplace_back(named.name);
  return names;
}

Function function_named(std::string_view name) {
  for (const NamedFunction& named : kFunctions) {
    if (name == named.name) return named.function;
  }
  throw InvalidArgument(unknown_name("activation", name, function_names()));
}

void activate_columns(DType dtype, const Activation& f, void* y, const void* bias, std::int64_t rows,
                      std::int64_t stride, std::int64_t first, std::int64_t last) {
  if (f.function == Function::linear && bias == nullptr) return;
  by_type(dtype, [&]<class T>(T) {
    const RowKernel<T> run = pick<T>(f.function, false);
    for (std::int64_t r = 0; r < rows; ++r) {
      T* row = static_cast<T*>(y) + r * stride + first;
      const T* b = bias == nullptr ? nullptr : static_cast<const T*>(bias) + first;
      run({.in = row, .more = b, .out = row, .sum = nullptr, .count = last - first, .slope = static_cast<T>(f.slope)});
    }
  });
}

void activation_gradient(const Activation& f, const Tensor& y, const Tensor& dy, void* bias_gradient,
                         std::int64_t columns) {
  const std::int64_t rows = y.count() / std::max<std::int64_t>(columns, 1);
  if (f.function == Function::linear && bias_gradient == nullptr) return;
  by_type(dy.dtype(), [&]<class T>(T) {
    const RowKernel<T> run = pick<T>(f.function, true);
    const std::int64_t grain = std::max<std::int64_t>(16, kGrain / std::max<std::int64_t>(rows, 1) / 16 * 16);
    parallel_for(columns, grain, [&](std::int64_t first, std::int64_t last) {
      T* sum = bias_gradient == nullptr ? nullptr : static_cast<T*>(bias_gradient) + first;
      if (sum != nullptr) std::fill_n(sum, last - first, T(0));
      for (std::int64_t r = 0; r < rows; ++r) {
        T* d = data<T>(dy) + r * columns + first;
        run({.in = d,
             .more = data<T>(y) + r * columns + first,
             .out = d,
             .sum = sum,
             .count = last - first,
             .slope = static_cast<T>(f.slope)});
      }
    });
  });
}

void activate(const Activation& f, const Tensor& x, const Tensor& y) {
  by_type(x.dtype(), [&]<class T>(T) {
    const RowKernel<T> run = pick<T>(f.function, false);
    parallel_for(x.count(), kGrain, [&](std::int64_t first, std::int64_t last) {
      run({.in = data<T>(x) + first,
           .more = nullptr,
           .out = data<T>(y) + first,
           .sum = nullptr,
           .count = last - first,
           .slope = static_cast<T>(f.slope)});
    });
  });
}

void activate_backward(const Activation& f, const Tensor& y, const Tensor& dy, const Tensor& dx) {
  by_type(dy.dtype(), [&]<class T>(T) {
    const RowKernel<T> run = pick<T>(f.function, true);
    parallel_for(dy.count(), kGrain, [&](std::int64_t first, std::int64_t last) {
      run({.in = data<T>(dy) + first,
           .more = data<T>(y) + first,
           .out = data<T>(dx) + first,
           .sum = nullptr,
           .count = last - first,
           .slope = static_cast<T>(f.slope)});
    });
  });
}

}  // namespace pleiad::kernel

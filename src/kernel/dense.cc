#include "kernel/dense.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "core/clones.h"
#include "core/threads.h"
#include "kernel/blas/panels.h"
#include "kernel/blas/picked.h"
#include "kernel/scratch.h"
#include "kernel/types.h"

namespace pleiad::kernel {
namespace {

constexpr std::int64_t kGrain = 16;
constexpr double kSplitFrom = 400'000;
// elements of a gradient that fit in the cache until the rule is applied
constexpr std::int64_t kUpdateElements = 192 * 1024;
// about the size of OpenBLAS's own block of the inner axis, so that tiles add no cost
constexpr std::int64_t kTileRows = 320;

std::byte* at(const Tensor& t, std::int64_t index) {
  return static_cast<std::byte*>(t.raw()) + static_cast<std::size_t>(index) * size_of(t.dtype());
}

std::int64_t grain_for(const Dense& d, std::int64_t whole, std::int64_t grain = kGrain) {
  const double work = static_cast<double>(d.batch) * static_cast<double>(d.in) * static_cast<double>(d.out);
  return work < kSplitFrom ? std::max<std::int64_t>(whole, 1) : grain;
}

/// The weight as stored, rows x columns, and the operands of its gradient left^T * right.
struct GradientOperands {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  Tensor left;   // batch x rows
  Tensor right;  // batch x columns
};

/// Computes the gradient of the weight rows [r0, r1) and columns [c0, c1) on this thread, and passes it to the update
/// or stores it.
void gradient_tile(const GradientOperands& s, std::int64_t batch, const Tensor& weight, const DenseGradients& to,
                   std::int64_t r0, std::int64_t r1, std::int64_t c0, std::int64_t c1) {
  const DType dtype = weight.dtype();
  Product p{.m = r1 - r0, .n = c1 - c0, .k = batch};
  const Operand left{.data = at(s.left, r0), .stride = s.rows, .transposed = true};
  const Operand right{.data = at(s.right, c0), .stride = s.columns};
  if (to.update == nullptr) {
    gemm_here(dtype, p, left, right, at(to.weight_gradient, r0 * s.columns + c0), s.columns);
    return;
  }
  if (const auto linear = to.update->linear()) {
    p.alpha = linear->factor;
    p.beta = linear->keep;
    gemm_here(dtype, p, left, right, at(weight, r0 * s.columns + c0), s.columns);
    return;
  }
  thread_local std::vector<std::byte> room;  // allocates in the first step only
  const std::size_t size = size_of(dtype);
  const std::int64_t chunk = std::clamp<std::int64_t>(kUpdateElements / std::max<std::int64_t>(p.n, 1), 32, p.m);
  room.resize(std::max(room.size(), static_cast<std::size_t>(chunk * p.n) * size + 64));
  auto* tile = room.data() + (64 - reinterpret_cast<std::uintptr_t>(room.data()) % 64) % 64;
  for (std::int64_t r = r0; r < r1; r += chunk) {
    const std::int64_t end = std::min(r + chunk, r1);
    p.m = end - r;
    gemm_here(dtype, p, {.data = at(s.left, r), .stride = s.rows, .transposed = true}, right, tile, p.n);
    if (p.n == s.columns) {
      to.update->apply(r * s.columns, p.m * p.n, tile);
      continue;
    }
    for (std::int64_t row = r; row < end; ++row) {
      to.update->apply(row * s.columns + c0, p.n, tile + static_cast<std::size_t>((row - r) * p.n) * size);
    }
  }
}

/// Computes y = f(x * weight^T + bias) with a packed weight.
template <class T>
void packed_forward(const Dense& d, const Tensor& x, const Tensor& packed, const Tensor& bias, const Tensor& y) {
  T* const left = scratch<struct LeftSide, T>(d.batch * d.in);
  parallel_for(d.batch, grain_for(d, d.batch, 8), [&](std::int64_t first, std::int64_t last) {
    pack_left<T>({.data = x.raw(), .stride = d.in}, d.batch, d.in, {first, last}, {0, d.in}, left);
  });
  parallel_for(d.out, grain_for(d, d.out), [&](std::int64_t first, std::int64_t last) {
    multiply<T>({.m = d.batch, .n = d.out, .k = d.in}, left, data<T>(packed), {first, last}, data<T>(y), d.out);
    activate_columns(dtype_of<T>, d.activation, y.raw(), bias.raw(), d.batch, d.out, first, last);
  });
}

/// Computes y = f(x * weight^T + bias) for x of zeros and ones. `weight` has a row for each input.
template <class T>
void pick_forward(const Dense& d, const Tensor& x, const Rows<T>& weight, const Tensor& bias, const Tensor& y) {
  auto* const codes = reinterpret_cast<std::uint8_t*>(
      scratch<struct Codes, T>(d.batch * code_size(d.in) / static_cast<std::int64_t>(sizeof(T)) + 1));
  parallel_for(d.batch, grain_for(d, d.batch, 8), [&](std::int64_t first, std::int64_t last) {
    pick_codes<T>(data<T>(x), d.batch, d.in, {first, last}, codes);
  });
  parallel_for(d.out, grain_for(d, d.out), [&](std::int64_t first, std::int64_t last) {
    add_picked<T>({.m = d.batch, .n = d.out, .k = d.in}, codes, weight, {first, last}, data<T>(y), d.out);
    activate_columns(dtype_of<T>, d.activation, y.raw(), bias.raw(), d.batch, d.out, first, last);
  });
}

template <class T>
PLEIAD_INLINE bool zeros_and_ones_of(const T* x, std::int64_t count) {
  int others = 0;
  for (std::int64_t i = 0; i < count; ++i) others |= (x[i] != T(0)) & (x[i] != T(1));
  return others == 0;
}
PLEIAD_CLONES bool run_zeros_and_ones(const float* x, std::int64_t count) { return zeros_and_ones_of(x, count); }
PLEIAD_CLONES bool run_zeros_and_ones(const double* x, std::int64_t count) { return zeros_and_ones_of(x, count); }

}  // namespace

bool zeros_and_ones(const Tensor& x) {
  constexpr std::int64_t kAtOnce = 1024;  // other data is usually detected in the first block
  bool all = true;
  by_type(x.dtype(), [&]<class T>(T) {
    for (std::int64_t i = 0; all && i < x.count(); i += kAtOnce) {
      all = run_zeros_and_ones(data<T>(x) + i, std::min(kAtOnce, x.count() - i));
    }
  });
  return all;
}

std::int64_t packed_size(const Dense& d) { return right_size(d.in, d.out); }

void pack_weight(const Dense& d, const Tensor& weight, const Tensor& packed) {
  const Operand w{.data = weight.raw(), .stride = d.transposed ? d.out : d.in, .transposed = !d.transposed};
  by_type(weight.dtype(), [&]<class T>(T) {
    parallel_for(d.out, grain_for(d, d.out), [&](std::int64_t first, std::int64_t last) {
      pack_right<T>(w, d.in, d.out, {first, last}, data<T>(packed));
    });
  });
}

void dense_forward(const Dense& d, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y,
                   const Tensor& packed) {
  constexpr std::int64_t kEnough = 8;  // minimum number of samples that makes the table of row sums pay
  if (d.picks && (d.transposed || !packed.empty()) && d.batch >= kEnough) {
    return by_type(x.dtype(), [&]<class T>(T) {
      pick_forward<T>(d, x, d.transposed ? plain_rows(data<T>(weight), d.out) : packed_rows(data<T>(packed), d.in),
                      bias, y);
    });
  }
  if (!packed.empty()) return by_type(x.dtype(), [&]<class T>(T) { packed_forward<T>(d, x, packed, bias, y); });
  const DType dtype = x.dtype();
  parallel_for(d.out, grain_for(d, d.out), [&](std::int64_t first, std::int64_t last) {
    const Operand w{.data = at(weight, d.transposed ? first : first * d.in),
                    .stride = d.transposed ? d.out : d.in,
                    .transposed = !d.transposed};
    gemm_here(dtype, {.m = d.batch, .n = last - first, .k = d.in}, {.data = x.raw(), .stride = d.in}, w, at(y, first),
              d.out);
    activate_columns(dtype, d.activation, y.raw(), bias.raw(), d.batch, d.out, first, last);
  });
}

void dense_backward(const Dense& d, const Tensor& x, const Tensor& weight, const Tensor& y, const Tensor& dy,
                    const DenseGradients& to) {
  const DType dtype = x.dtype();
  activation_gradient(d.activation, y, dy, to.bias_gradient.raw(), d.out);
  const GradientOperands sides = d.transposed
                                     ? GradientOperands{.rows = d.in, .columns = d.out, .left = x, .right = dy}
                                     : GradientOperands{.rows = d.out, .columns = d.in, .left = dy, .right = x};
  const bool wants_gradient = to.update != nullptr || !to.weight_gradient.empty();
  if (to.dx.empty()) {
    if (!wants_gradient) return;
    const bool by_rows = sides.rows >= sides.columns;
    const std::int64_t whole = by_rows ? sides.rows : sides.columns;
    parallel_for(whole, grain_for(d, whole), [&](std::int64_t first, std::int64_t last) {
      by_rows ? gradient_tile(sides, d.batch, weight, to, first, last, 0, sides.columns)
              : gradient_tile(sides, d.batch, weight, to, 0, sides.rows, first, last);
    });
    return;
  }
  // Each thread owns some inputs, which are columns of an untransposed weight. For each tile it computes its part of dx
  // and then updates the tile, so each weight is read from memory only once.
  parallel_for(d.in, grain_for(d, d.in), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t o = 0; o < d.out; o += kTileRows) {
      const std::int64_t end = std::min(o + kTileRows, d.out);
      const Operand w{.data = at(weight, d.transposed ? first * d.out + o : o * d.in + first),
                      .stride = d.transposed ? d.out : d.in,
                      .transposed = d.transposed};
      gemm_here(dtype, {.m = d.batch, .n = last - first, .k = end - o, .beta = o == 0 ? 0.0 : 1.0},
                {.data = at(dy, o), .stride = d.out}, w, at(to.dx, first), d.in);
      if (!wants_gradient) continue;
      d.transposed ? gradient_tile(sides, d.batch, weight, to, first, last, o, end)
                   : gradient_tile(sides, d.batch, weight, to, o, end, first, last);
    }
  });
}

}  // namespace pleiad::kernel

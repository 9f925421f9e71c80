#include "kernel/recurrent.h"

#include <algorithm>
#include <cmath>

#include "core/clones.h"
#include "core/threads.h"
#include "kernel/blas/panels.h"
#include "kernel/dense.h"
#include "kernel/elementwise.h"
#include "kernel/math.h"
#include "kernel/types.h"

namespace pleiad::kernel {
namespace {

constexpr std::int64_t kGrain = 16;     // the number of units per thread is a multiple of this
constexpr double kSplitFrom = 400'000;  // products per step below which a second thread does not pay

/// `count` units of one sample at one step. Members that a cell does not use are null. Gates are `hidden` elements
/// apart.
template <class T>
struct Units {
  T* gates;
  T* inner;
  const T* bias;
  const T* before;  // h'
  const T* cell_before;
  T* y;
  T* next;  // h' of the next step, or null
  const T* dy;
  T* back;       // the gradient that arrives from the next step, replaced by the one for the previous step
  T* cell_back;  // lstm: the same for c
  std::int64_t count, hidden;
  bool first;  // in backward: the last step, which receives no gradient from a next step
};

template <class T>
PLEIAD_INLINE void gru_forward(const Units<T>& u) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < u.count; ++i) {
    const T r = sigmoid_of(u.gates[i] + u.bias[i]);
    const T z = sigmoid_of(u.gates[u.hidden + i] + u.bias[u.hidden + i]);
    const T n = tanh_of(u.gates[2 * u.hidden + i] + u.bias[2 * u.hidden + i] + r * u.inner[i]);
    u.gates[i] = r;
    u.gates[u.hidden + i] = z;
    u.gates[2 * u.hidden + i] = n;
    u.y[i] = (1 - z) * n + z * u.before[i];
  }
}
/// Leaves the gradients by a_r, a_z and U_n h' in `gates`, and by a_n in `inner`.
template <class T>
PLEIAD_INLINE void gru_backward(const Units<T>& u) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < u.count; ++i) {
    const T r = u.gates[i];
    const T z = u.gates[u.hidden + i];
    const T n = u.gates[2 * u.hidden + i];
    const T dh = u.first ? u.dy[i] : u.dy[i] + u.back[i];
    const T dn = dh * (1 - z) * (1 - n * n);
    u.gates[i] = dn * u.inner[i] * r * (1 - r);
    u.gates[u.hidden + i] = dh * (u.before[i] - n) * z * (1 - z);
    u.gates[2 * u.hidden + i] = dn * r;
    u.inner[i] = dn;
    u.back[i] = dh * z;
  }
}
template <class T>
PLEIAD_INLINE void lstm_forward(const Units<T>& u) {
  const std::int64_t h = u.hidden;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < u.count; ++i) {
    const T in = sigmoid_of(u.gates[i] + u.bias[i]);
    const T forget = sigmoid_of(u.gates[h + i] + u.bias[h + i]);
    const T g = tanh_of(u.gates[2 * h + i] + u.bias[2 * h + i]);
    const T out = sigmoid_of(u.gates[3 * h + i] + u.bias[3 * h + i]);
    const T c = forget * u.cell_before[i] + in * g;
    u.gates[i] = in;
    u.gates[h + i] = forget;
    u.gates[2 * h + i] = g;
    u.gates[3 * h + i] = out;
    u.inner[i] = c;
    u.y[i] = out * tanh_of(c);
  }
}
template <class T>
PLEIAD_INLINE void lstm_backward(const Units<T>& u) {
  const std::int64_t h = u.hidden;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < u.count; ++i) {
    const T in = u.gates[i];
    const T forget = u.gates[h + i];
    const T g = u.gates[2 * h + i];
    const T out = u.gates[3 * h + i];
    const T bent = tanh_of(u.inner[i]);
    const T dh = u.first ? u.dy[i] : u.dy[i] + u.back[i];
    const T dc = dh * out * (1 - bent * bent) + (u.first ? T(0) : u.cell_back[i]);
    u.gates[i] = dc * g * in * (1 - in);
    u.gates[h + i] = dc * u.cell_before[i] * forget * (1 - forget);
    u.gates[2 * h + i] = dc * in * (1 - g * g);
    u.gates[3 * h + i] = dh * bent * out * (1 - out);
    u.cell_back[i] = dc * forget;
    u.back[i] = 0;
  }
}
template <class T>
PLEIAD_INLINE void copy_next(const Units<T>& u) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < u.count; ++i) u.next[i] = u.y[i];
}

#define PLEIAD_UNITS(name)                                          \
  PLEIAD_CLONES void run_##name(const Units<float>& u) { name(u); } \
  PLEIAD_CLONES void run_##name(const Units<double>& u) { name(u); }
PLEIAD_UNITS(gru_forward)
PLEIAD_UNITS(gru_backward)
PLEIAD_UNITS(lstm_forward)
PLEIAD_UNITS(lstm_backward)
PLEIAD_UNITS(copy_next)

/// A sequence's memory as typed pointers, with access to one step of one sample.
template <class T>
struct TypedMemory {
  const Recurrent& r;
  T* gates;
  T* previous;
  T* inner;
  T* cell;
  T* back;
  T* y;
  const T* dy;
  const T* bias;
  T* packed;  // the recurrent weight
  T* left;    // the operand that it multiplies

  [[nodiscard]] std::int64_t step(std::int64_t n, std::int64_t t) const { return n * r.steps + t; }
  [[nodiscard]] Units<T> units(std::int64_t n, std::int64_t t, std::int64_t first, std::int64_t count) const {
    const std::int64_t at = step(n, t) * r.hidden + first;
    const bool more = t + 1 < r.steps;
    const T* before = cell == nullptr ? nullptr : t == 0 ? cell + n * r.hidden + first : inner + at - r.hidden;
    return {.gates = gates + step(n, t) * r.gates() * r.hidden + first,
            .inner = inner == nullptr ? nullptr : inner + at,
            .bias = bias + first,
            .before = previous + at,
            .cell_before = before,
            .y = y + at,
            .next = more ? previous + at + r.hidden : nullptr,
            .dy = dy == nullptr ? nullptr : dy + at,
            .back = back + n * r.hidden + first,
            .cell_back = nullptr,
            .count = count,
            .hidden = r.hidden,
            .first = !more};
  }
};

template <class T>
TypedMemory<T> typed_memory(const Recurrent& r, const RecurrentMemory& m, const Tensor& y, const Tensor& dy,
                            const T* bias) {
  const auto of = [](const Tensor& t) { return t.empty() ? nullptr : data<T>(t); };
  return {r,          of(m.gates), of(m.previous), of(m.inner), r.cell == Cell::lstm ? of(m.cell) : nullptr,
          of(m.back), of(y),       of(dy),         bias,        of(m.packed),
          of(m.left)};
}

std::int64_t grain_of(const Recurrent& r) {
  const double work = static_cast<double>(r.batch) * static_cast<double>(r.hidden * r.gates() * r.hidden);
  return work < kSplitFrom ? r.hidden : kGrain;
}

/// Packs the outputs (batch, steps, hidden) of step t as the left operand of step t + 1. Alternates between two
/// buffers, because other threads may still read the previous one.
template <class T>
void pack_step(const TypedMemory<T>& l, const T* from, std::int64_t t, Range units) {
  const Recurrent& r = l.r;
  pack_left<T>({.data = from + t * r.hidden, .stride = r.steps * r.hidden}, r.batch, r.hidden, {0, r.batch}, units,
               l.left + (t + 1) % 2 * r.batch * r.hidden);
}

/// Packs each gate separately, so that a thread owns its units of all gates.
template <class T>
void pack_recurrent(const TypedMemory<T>& l, const T* recurrent, Range units) {
  const std::int64_t h = l.r.hidden;
  for (std::int64_t g = 0; g < l.r.gates(); ++g) {
    pack_right<T>({.data = recurrent + g * h * h, .stride = h, .transposed = true}, h, h, units,
                  l.packed + g * right_size(h, h));
  }
}

template <class T>
void forward_step(const TypedMemory<T>& l, std::int64_t t, std::int64_t first, std::int64_t last) {
  const Recurrent& r = l.r;
  const std::int64_t width = r.gates() * r.hidden;
  for (std::int64_t g = 0; g < r.gates(); ++g) {
    const bool inside = r.cell == Cell::gru && g == 2;  // kept separate, because r multiplies it
    multiply<T>({.m = r.batch, .n = r.hidden, .k = r.hidden, .beta = inside ? 0.0 : 1.0},
                l.left + t % 2 * r.batch * r.hidden, l.packed + g * right_size(r.hidden, r.hidden), {first, last},
                inside ? l.inner + t * r.hidden : l.gates + t * width + g * r.hidden,
                r.steps * (inside ? r.hidden : width));
  }
  for (std::int64_t n = 0; n < r.batch; ++n) {
    const Units<T> u = l.units(n, t, first, last - first);
    if (r.cell == Cell::gru) run_gru_forward(u);
    if (r.cell == Cell::lstm) run_lstm_forward(u);
    if (r.cell == Cell::rnn) {
      std::copy_n(u.gates, u.count, u.y);
      activate_columns(dtype_of<T>, r.function, u.y, u.bias, 1, u.count, 0, u.count);
    }
    if (u.next != nullptr) run_copy_next(u);
  }
  if (t + 1 < r.steps) pack_step<T>(l, l.y, t, {first, last});
}

/// Copies (batch, hidden) from or to one step of (batch, steps, hidden).
void copy_step(const Recurrent& r, const Tensor& sequence, std::int64_t t, const Tensor& one, bool into_one) {
  const std::size_t row = static_cast<std::size_t>(r.hidden) * size_of(one.dtype());
  auto* at = static_cast<std::byte*>(sequence.raw()) + static_cast<std::size_t>(t) * row;
  const std::size_t stride = static_cast<std::size_t>(r.steps) * row;
  into_one ? copy_strided(one.raw(), row, at, stride, row, r.batch)
           : copy_strided(at, stride, one.raw(), row, row, r.batch);
}
void zero_step(const Recurrent& r, const Tensor& sequence, std::int64_t t) {
  by_type(sequence.dtype(), [&]<class T>(T) {
    for (std::int64_t n = 0; n < r.batch; ++n) {
      std::fill_n(data<T>(sequence) + (n * r.steps + t) * r.hidden, r.hidden, T(0));
    }
  });
}

/// Returns the bias, or zeros.
template <class T>
const T* bias_of(const Recurrent& r, const Tensor& bias) {
  if (!bias.empty()) return data<T>(bias);
  thread_local std::vector<T> zeros;
  if (zeros.size() < static_cast<std::size_t>(r.gates() * r.hidden)) {
    zeros.assign(static_cast<std::size_t>(r.gates() * r.hidden), T(0));
  }
  return zeros.data();
}

Dense product_of(const Recurrent& r, std::int64_t in) {
  return {.batch = r.batch * r.steps, .in = in, .out = r.gates() * r.hidden, .activation = {}};
}

}  // namespace

std::int64_t Recurrent::packed_size() const {
  return std::max(gates() * right_size(hidden, hidden), right_size(gates() * hidden, hidden));
}
std::int64_t Recurrent::left_size() const { return std::max<std::int64_t>(gates(), 2) * batch * hidden; }

void recurrent_forward(const Recurrent& r, const RecurrentParameters& p, const Tensor& x, const Tensor& y,
                       const Tensor& hidden, const Tensor& cell, const RecurrentMemory& memory) {
  dense_forward(product_of(r, r.in), x, p.weight, {}, memory.gates);
  hidden.empty() ? zero_step(r, memory.previous, 0) : copy_step(r, memory.previous, 0, hidden, false);
  if (r.cell == Cell::lstm) cell.empty() ? memory.cell.fill(0) : copy(memory.cell, cell);
  by_type(x.dtype(), [&]<class T>(T) {
    const TypedMemory<T> l = typed_memory<T>(r, memory, y, {}, bias_of<T>(r, p.bias));
    parallel_for(r.hidden, grain_of(r), [&](std::int64_t first, std::int64_t last) {
      pack_recurrent<T>(l, data<T>(p.recurrent), {first, last});
      pack_step<T>(l, l.previous + r.hidden, -1, {first, last});
    });
    for (std::int64_t t = 0; t < r.steps; ++t) {
      parallel_for(r.hidden, grain_of(r),
                   [&](std::int64_t first, std::int64_t last) { forward_step(l, t, first, last); });
    }
  });
  if (!hidden.empty()) copy_step(r, y, r.steps - 1, hidden, true);
  if (!cell.empty()) copy_step(r, memory.inner, r.steps - 1, cell, true);
}

void recurrent_backward(const Recurrent& r, const RecurrentParameters& p, const Tensor& x, const Tensor& y,
                        const Tensor& dy, const RecurrentMemory& memory, const RecurrentGradients& to) {
  const std::int64_t width = r.gates() * r.hidden;
  by_type(x.dtype(), [&]<class T>(T) {
    const TypedMemory<T> l = typed_memory<T>(r, memory, y, dy, bias_of<T>(r, p.bias));
    thread_local std::vector<T> cell_back;  // the gradient by c
    cell_back.resize(std::max(cell_back.size(), static_cast<std::size_t>(r.batch * r.hidden)));
    T* const by_cell = cell_back.data();
    parallel_for(r.hidden, grain_of(r), [&](std::int64_t first, std::int64_t last) {
      pack_right<T>({.data = p.recurrent.raw(), .stride = r.hidden}, width, r.hidden, {first, last}, l.packed);
    });
    for (std::int64_t t = r.steps; t-- > 0;) {
      parallel_for(r.batch, std::max<std::int64_t>(1, 8192 / width), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t n = begin; n < end; ++n) {
          Units<T> u = l.units(n, t, 0, r.hidden);
          u.cell_back = by_cell + n * r.hidden;
          if (r.cell == Cell::gru) run_gru_backward(u);
          if (r.cell == Cell::lstm) run_lstm_backward(u);
          if (r.cell == Cell::rnn) {
            for (std::int64_t i = 0; i < u.count; ++i) u.gates[i] = u.first ? u.dy[i] : u.dy[i] + u.back[i];
            const Tensor given(dtype_of<T>, {1, u.count}, u.y);
            activation_gradient(r.function, given, Tensor(dtype_of<T>, {1, u.count}, u.gates), nullptr, u.count);
            std::fill_n(u.back, u.count, T(0));
          }
        }
        pack_left<T>({.data = l.gates + t * width, .stride = r.steps * width}, r.batch, width, {begin, end}, {0, width},
                     l.left);
      });
      if (t == 0 && !to.through_first) break;
      parallel_for(r.hidden, grain_of(r), [&](std::int64_t first, std::int64_t last) {
        multiply<T>({.m = r.batch, .n = r.hidden, .k = width, .beta = 1}, l.left, l.packed, {first, last}, l.back,
                    r.hidden);
      });
    }
  });
  dense_backward(product_of(r, r.hidden), memory.previous, p.recurrent, memory.gates, memory.gates,
                 {.dx = {}, .weight_gradient = to.by.recurrent, .bias_gradient = {}, .update = to.recurrent_update});
  if (r.cell == Cell::gru) {  // uses the gradient by n instead of that by U_n h'
    const std::size_t size = size_of(x.dtype());
    copy_strided(static_cast<std::byte*>(memory.gates.raw()) + static_cast<std::size_t>(2 * r.hidden) * size,
                 static_cast<std::size_t>(width) * size, memory.inner.raw(), static_cast<std::size_t>(r.hidden) * size,
                 static_cast<std::size_t>(r.hidden) * size, r.batch * r.steps);
  }
  dense_backward(
      product_of(r, r.in), x, p.weight, memory.gates, memory.gates,
      {.dx = to.dx, .weight_gradient = to.by.weight, .bias_gradient = to.by.bias, .update = to.weight_update});
}

}  // namespace pleiad::kernel

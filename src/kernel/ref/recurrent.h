// Recurrent cells by definition, one unit after the other: the oracle of the fast kernels, whose gradients are checked
// against finite differences.
#pragma once

#include <cmath>
#include <vector>

#include "kernel/recurrent.h"
#include "kernel/ref/activation.h"
#include "kernel/types.h"

namespace pleiad::kernel::ref {

/// hidden and cell: (batch, hidden); used and updated like those of recurrent_forward.
template <class T>
void recurrent(const Recurrent& r, const RecurrentParameters& p, const Tensor& x, const Tensor& y, const Tensor& hidden,
               const Tensor& cell) {
  const std::int64_t H = r.hidden;
  const auto s = [](T a) { return 1 / (1 + std::exp(-a)); };
  for (std::int64_t n = 0; n < r.batch; ++n) {
    std::vector<T> h(data<T>(hidden) + n * H, data<T>(hidden) + (n + 1) * H);
    std::vector<T> c(static_cast<std::size_t>(H));
    if (!cell.empty()) c.assign(data<T>(cell) + n * H, data<T>(cell) + (n + 1) * H);
    for (std::int64_t t = 0; t < r.steps; ++t) {
      const auto row = [&](std::int64_t g, std::int64_t j, T& wx, T& uh) {
        const std::int64_t at = g * H + j;
        wx = p.bias.empty() ? T(0) : data<T>(p.bias)[at];
        uh = 0;
        for (std::int64_t i = 0; i < r.in; ++i)
          wx += data<T>(p.weight)[at * r.in + i] * data<T>(x)[(n * r.steps + t) * r.in + i];
        for (std::int64_t i = 0; i < H; ++i) uh += data<T>(p.recurrent)[at * H + i] * h[static_cast<std::size_t>(i)];
      };
      std::vector<T> next(static_cast<std::size_t>(H));
      for (std::int64_t j = 0; j < H; ++j) {
        T wx[4] = {}, uh[4] = {};
        for (std::int64_t g = 0; g < r.gates(); ++g) row(g, j, wx[g], uh[g]);
        const T a = wx[0] + uh[0], b = wx[1] + uh[1];
        T& own = c[static_cast<std::size_t>(j)];
        if (r.cell == Cell::rnn) next[static_cast<std::size_t>(j)] = value(r.function, a);
        if (r.cell == Cell::gru) {
          const T candidate = std::tanh(wx[2] + s(a) * uh[2]);
          next[static_cast<std::size_t>(j)] = (1 - s(b)) * candidate + s(b) * h[static_cast<std::size_t>(j)];
        }
        if (r.cell == Cell::lstm) {
          own = s(b) * own + s(a) * std::tanh(wx[2] + uh[2]);
          next[static_cast<std::size_t>(j)] = s(wx[3] + uh[3]) * std::tanh(own);
        }
      }
      h = next;
      std::copy(h.begin(), h.end(), data<T>(y) + (n * r.steps + t) * H);
    }
    std::copy(h.begin(), h.end(), data<T>(hidden) + n * H);
    if (!cell.empty()) std::copy(c.begin(), c.end(), data<T>(cell) + n * H);
  }
}

}  // namespace pleiad::kernel::ref

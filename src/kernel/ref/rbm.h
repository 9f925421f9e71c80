// Contrastive divergence by definition: the oracle of the layer.
#pragma once

#include <cmath>
#include <functional>
#include <vector>

#include "kernel/types.h"

namespace pleiad::kernel::ref {

struct Rbm {
  bool gaussian_visible = false;
  bool gaussian_hidden = false;
  std::int64_t k = 1;
};

template <class T>
struct RbmGradient {
  std::vector<T> weight;  // hidden x visible
  std::vector<T> hidden_bias;
  std::vector<T> visible_bias;
  T squared_error = 0;  // of the last reconstruction, averaged over the batch
};

/// Returns the mean over the samples of (h- v-) - (h+ v+). draw(sample, step of the chain, unit, mean) returns the
/// state of a hidden unit. Visible units keep their means unless draw_visible returns their states.
template <class T>
RbmGradient<T> contrastive_divergence(const Rbm& rbm, const Tensor& x, const Tensor& weight, const Tensor& hidden_bias,
                                      const Tensor& visible_bias,
                                      const std::function<T(std::int64_t, std::int64_t, std::int64_t, T)>& draw,
                                      decltype(draw) draw_visible = {}) {
  const std::int64_t batch = x.shape()[0], visible = x.count() / batch, hidden = hidden_bias.count();
  const auto unit = [](T sum, bool gaussian) { return gaussian ? sum : 1 / (1 + std::exp(-sum)); };
  const auto up = [&](const std::vector<T>& v) {
    std::vector<T> h(static_cast<std::size_t>(hidden));
    for (std::int64_t j = 0; j < hidden; ++j) {
      T sum = data<T>(hidden_bias)[j];
      for (std::int64_t i = 0; i < visible; ++i)
        sum += data<T>(weight)[j * visible + i] * v[static_cast<std::size_t>(i)];
      h[static_cast<std::size_t>(j)] = unit(sum, rbm.gaussian_hidden);
    }
    return h;
  };
  const auto down = [&](const std::vector<T>& h) {
    std::vector<T> v(static_cast<std::size_t>(visible));
    for (std::int64_t i = 0; i < visible; ++i) {
      T sum = data<T>(visible_bias)[i];
      for (std::int64_t j = 0; j < hidden; ++j)
        sum += data<T>(weight)[j * visible + i] * h[static_cast<std::size_t>(j)];
      v[static_cast<std::size_t>(i)] = unit(sum, rbm.gaussian_visible);
    }
    return v;
  };
  RbmGradient<T> g{std::vector<T>(static_cast<std::size_t>(hidden * visible)),
                   std::vector<T>(static_cast<std::size_t>(hidden)), std::vector<T>(static_cast<std::size_t>(visible)),
                   0};
  const auto add = [&](const std::vector<T>& h, const std::vector<T>& v, T factor) {
    for (std::int64_t j = 0; j < hidden; ++j) {
      g.hidden_bias[static_cast<std::size_t>(j)] += factor * h[static_cast<std::size_t>(j)];
      for (std::int64_t i = 0; i < visible; ++i) {
        g.weight[static_cast<std::size_t>(j * visible + i)] +=
            factor * h[static_cast<std::size_t>(j)] * v[static_cast<std::size_t>(i)];
      }
    }
    for (std::int64_t i = 0; i < visible; ++i)
      g.visible_bias[static_cast<std::size_t>(i)] += factor * v[static_cast<std::size_t>(i)];
  };
  const T share = 1 / static_cast<T>(batch);
  for (std::int64_t n = 0; n < batch; ++n) {
    const std::vector<T> seen(data<T>(x) + n * visible, data<T>(x) + (n + 1) * visible);
    std::vector<T> h = up(seen);
    add(h, seen, -share);
    std::vector<T> v;
    for (std::int64_t step = 0; step < rbm.k; ++step) {
      for (std::int64_t j = 0; j < hidden; ++j)
        h[static_cast<std::size_t>(j)] = draw(n, step, j, h[static_cast<std::size_t>(j)]);
      v = down(h);
      for (std::int64_t i = 0; draw_visible && i < visible; ++i)
        v[static_cast<std::size_t>(i)] = draw_visible(n, step, i, v[static_cast<std::size_t>(i)]);
      h = up(v);
    }
    add(h, v, share);
    for (std::size_t i = 0; i < v.size(); ++i) g.squared_error += share * (v[i] - seen[i]) * (v[i] - seen[i]);
  }
  return g;
}

}  // namespace pleiad::kernel::ref

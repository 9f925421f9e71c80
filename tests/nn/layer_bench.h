// A layer outside of a net, for tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "pleiad/nn/layers.h"

namespace pleiad::nn {

inline std::int64_t pick(std::mt19937& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}
/// A layer with all its tensors.
struct Bench {
  LayerPtr layer;
  Pass pass;
  std::vector<Tensor> weights;  // weights of the sum that reduces the outputs to one value

  /// Inputs are at least `keep_away` from 0, where a function may not be differentiable.
  Bench(const std::string& kind, const LayerFields& fields, const Shapes& shapes, DType dtype, unsigned seed,
        double keep_away = 0)
      : layer(make_layer(kind, fields)) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    const auto fill = [&](const Tensor& t, double away) {
      for (std::int64_t i = 0; i < t.count(); ++i) {
        double v = normal(random);
        if (std::fabs(v) < away) v = v < 0 ? v - away : v + away;
        dtype == DType::float32 ? t.values<float>()[i] = static_cast<float>(v)
                                : t.values<double>()[i] = static_cast<double>(static_cast<float>(v));
      }
    };
    const bool loss = !scores_of(*layer).empty();
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      if (layer->input_type(i, dtype) == DType::int32) {  // labels below the number of scores, or below 2
        const std::int64_t most = i == 0 ? 2 : shapes[0][shapes[0].rank() - 1];
        pass.x.emplace_back(DType::int32, shapes[i]);
        for (auto& label : pass.x[i].values<std::int32_t>())
          label = static_cast<std::int32_t>(pick(random, 0, most - 1));
      } else {
        pass.x.emplace_back(dtype, shapes[i]);
        fill(pass.x.back(), keep_away);
      }
      const bool gradient = layer->differentiable(i);
      pass.dx.push_back(gradient ? Tensor(dtype, shapes[i]) : Tensor());
    }
    for (const Shape& shape : layer->outputs(shapes)) {
      pass.y.emplace_back(layer->output_type(pass.y.size(), dtype), shape);
      pass.dy.emplace_back(dtype, shape);
      weights.emplace_back(dtype, shape);
      if (loss) {
        weights.back().fill(weights.size() == 1 ? 1 : 0);  // metrics have no gradient
      } else {
        fill(weights.back(), 0);
      }
    }
    for (const ParamSpec& spec : layer->parameters(shapes)) {
      pass.parameter.emplace_back(dtype, spec.shape);
      fill(pass.parameter.back(), 0);
      pass.gradient.emplace_back(dtype, spec.shape);
      pass.update.push_back(nullptr);
    }
    for (const ParamSpec& spec : states_of(*layer, shapes)) pass.state.emplace_back(dtype, spec.shape);
    for (const Shape& shape : layer->workspace(shapes)) pass.workspace.emplace_back(dtype, shape);
    for (const Shape& shape : carried_by(*layer, shapes)) pass.carried.emplace_back(dtype, shape);
    pass.name = "layer";
    layer->prepare(shapes, dtype);
  }

  double value() {
    for (const Tensor& carried : pass.carried) carried.fill(0);
    layer->forward(pass);
    double sum = 0;
    for (std::size_t k = 0; k < pass.y.size(); ++k) {
      for (std::int64_t i = 0; i < pass.y[k].count(); ++i) sum += pass.y[k].at(i) * weights[k].at(i);
    }
    return sum;
  }
  void gradients() {
    (void)value();
    for (std::size_t k = 0; k < pass.dy.size(); ++k) pass.dy[k].copy_from(weights[k]);
    layer->backward(pass);
  }
};

/// Checks that a and b differ by at most `tolerance` times max(|b|, 1).
inline void expect_close(const Tensor& a, const Tensor& b, const std::string& what, double tolerance = 1e-4) {
  ASSERT_EQ(a.count(), b.count());
  for (std::int64_t i = 0; i < a.count(); ++i) {
    ASSERT_NEAR(a.at(i), b.at(i), tolerance * std::max(1.0, std::fabs(b.at(i)))) << what << " element " << i;
  }
}

}  // namespace pleiad::nn

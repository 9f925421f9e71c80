// A small net and small data, for tests of training.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/random.h"
#include "pleiad/nn/layers.h"
#include "pleiad/train.h"

namespace pleiad::test {

inline constexpr std::int64_t kSamples = 96;

/// Images whose class determines the brightness of their quarters, with noise.
inline std::vector<std::pair<std::string, Tensor>> images() {
  const Tensor x(DType::float32, {kSamples, 8, 8, 2});
  const Tensor label(DType::int32, {kSamples});
  const RandomStream noise(11, "noise");
  for (std::int64_t n = 0; n < kSamples; ++n) {
    label.values<std::int32_t>()[n] = static_cast<std::int32_t>(n % 4);
    for (std::int64_t i = 0; i < 128; ++i) {
      const std::int64_t row = i / 16;
      const double bright = row / 2 == n % 4 ? 1 : 0;
      x.values<float>()[n * 128 + i] =
          static_cast<float>(bright + 0.3 * noise.gaussian(static_cast<std::uint64_t>(n * 128 + i)));
    }
  }
  return {{"x", x}, {"label", label}};
}

inline std::unique_ptr<Samples> samples(bool shuffle = true) { return array_samples(images(), {.shuffle = shuffle}); }

/// With `batch_norm`, adds batch normalisation and then the activation after the convolution.
inline nn::Net cnn(std::uint64_t seed = 4, bool batch_norm = false) {
  const nn::Param wide{.init = {.type = "he"}};
  nn::Net net({.seed = seed});
  net.input("label", {}, DType::int32).input("x", {8, 8, 2});
  nn::ConvolutionOptions conv = nn::square(6, 3, 1, 1);
  conv.activation = batch_norm ? "linear" : "relu";
  conv.weight_param = wide;
  net.add("conv", nn::convolution(conv));
  if (batch_norm) net.add("bn", nn::batch_norm()).add("relu", nn::activation({.function = "relu"}));
  net.add("pool", nn::pooling({.type = "max", .kernel = 2, .stride = 2}));
  net.add("norm", nn::lrn({.size = 3, .alpha = 0.1}));
  net.add("hidden", nn::dense({.out = 16, .activation = "tanh", .weight_param = wide}));
  net.add("drop", nn::dropout({.ratio = 0.2}));
  net.add("out", nn::dense({.out = 4, .weight_param = wide}));
  net.add("loss", nn::softmax_loss(), {.inputs = {"out", "label"}});
  return net;
}

inline TrainOptions options(const std::string& rule, const std::string& exchange) {
  TrainOptions o{
      .batch = 16, .updater = {.rule = rule, .learning_rate = rule == "adam" ? 0.01 : 0.05}, .exchange = exchange};
  if (rule == "momentum") o.updater.momentum = 0.9;
  o.steps = 20;
  o.display = 1;
  return o;
}

/// Returns the losses of a run, step by step.
inline std::vector<double> trace(Trainer& trainer, Samples& from, TrainCalls calls = {}) {
  std::vector<double> losses;
  calls.report = [&](const Report& r) {
    if (r.phase == nn::Phase::train) losses.push_back(r.metrics[0].second);
    return true;
  };
  trainer.run(from, nullptr, nullptr, calls);
  return losses;
}

}  // namespace pleiad::test

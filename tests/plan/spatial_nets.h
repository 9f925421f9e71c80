// Nets over images and data that they can learn, for tests of spatial plans.
#pragma once

#include <memory>
#include <string>

#include "core/random.h"
#include "pleiad/nn/layers.h"
#include "pleiad/train.h"

namespace pleiad::test {

/// conv 20 5x5, max 2, conv 50 5x5, max 2, dense 500, dense 10.
inline nn::Net mnist(DType dtype) {
  nn::Net net({.name = "20-50-500-10", .dtype = dtype, .seed = 4});
  const nn::Param wide{.init = {.type = "he"}};
  net.input("label", {}, DType::int32).input("x", {28, 28, 1}, dtype);
  const auto conv = [&](std::int64_t filters) {
    nn::ConvolutionOptions o = nn::square(filters, 5);
    o.activation = "relu";
    o.weight_param = wide;
    return nn::convolution(o);
  };
  net.add("conv1", conv(20));
  net.add("pool1", nn::pooling({.kernel = 2, .stride = 2}));
  net.add("conv2", conv(50));
  net.add("pool2", nn::pooling({.kernel = 2, .stride = 2}));
  net.add("hidden", nn::dense({.out = 500, .activation = "relu", .weight_param = wide}));
  net.add("out", nn::dense({.out = 10, .weight_param = wide}));
  net.add("loss", nn::softmax_loss(), {.inputs = {"out", "label"}});
  return net;
}

/// Noisy images of 28x28 whose class determines the position of a stripe.
inline Tensor images_of(DType dtype, std::int64_t count) {
  const Tensor x(dtype, {count, 28, 28, 1});
  const RandomStream noise(8, "digits");
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const std::int64_t n = i / 784;
    const double value = noise.uniform(static_cast<std::uint64_t>(i)) + ((i % 784) / 79 == n % 10 ? 1 : 0);
    if (dtype == DType::float32) x.values<float>()[static_cast<std::size_t>(i)] = static_cast<float>(value);
    if (dtype == DType::float64) x.values<double>()[static_cast<std::size_t>(i)] = value;
  }
  return x;
}

inline std::unique_ptr<Samples> digits(DType dtype, std::int64_t count) {
  const Tensor label(DType::int32, {count});
  for (std::int64_t n = 0; n < count; ++n) {
    label.values<std::int32_t>()[static_cast<std::size_t>(n)] = static_cast<std::int32_t>(n % 10);
  }
  return array_samples({{"x", images_of(dtype, count)}, {"label", label}});
}

inline TrainOptions mnist_options(const std::string& grid, std::int64_t batch, std::int64_t steps) {
  TrainOptions o{.batch = batch, .updater = {.rule = "momentum", .learning_rate = 0.01, .momentum = 0.9}};
  o.plan = {.kind = "spatial", .grid = grid};
  o.steps = steps;
  o.display = 1;
  return o;
}

}  // namespace pleiad::test

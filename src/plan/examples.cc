// Example nets.
#include <fmt/format.h>

#include "core/text.h"
#include "pleiad/error.h"
#include "pleiad/nn/layers.h"
#include "pleiad/plan.h"

namespace pleiad {
namespace {

using nn::Net;

/// SINGA's MNIST net: 784-2500-2000-1500-1000-500-10.
Net mlp() {
  Net net({.name = "mlp"});
  net.input("label", {}, DType::int32).input("x", {784});
  int i = 0;
  for (const std::int64_t width : {2500, 2000, 1500, 1000, 500}) {
    net.add(fmt::format("fc{}", i++), nn::dense({.out = width, .activation = "stanh"}));
  }
  net.add("fc5", nn::dense({.out = 10}));
  net.add("loss", nn::softmax_loss(), {.inputs = {"fc5", "label"}});
  return net;
}

Net small() {
  Net net({.name = "small"});
  net.input("label", {}, DType::int32).input("x", {784});
  net.add("hidden", nn::dense({.out = 128, .activation = "relu"})).add("scores", nn::dense({.out = 10}));
  net.add("loss", nn::softmax_loss(), {.inputs = {"scores", "label"}});
  return net;
}

/// The layers have 784-1000-500-250-30 units and the reverse.
Net autoencoder() {
  Net net({.name = "autoencoder"});
  net.input("target", {784}).input("x", {784});
  const std::int64_t widths[] = {1000, 500, 250, 30, 250, 500, 1000, 784};
  for (std::size_t i = 0; i < std::size(widths); ++i) {
    net.add(fmt::format("fc{}", i), nn::dense({.out = widths[i], .activation = "sigmoid"}));
  }
  net.add("loss", nn::euclidean_loss(), {.inputs = {"fc7", "target"}});
  return net;
}

/// SINGA's net for CIFAR-10.
Net cnn() {
  const auto conv = [](std::int64_t filters, double std, const char* activation) {
    nn::ConvolutionOptions o = nn::square(filters, 5, 1, 2);
    o.activation = activation;
    o.weight_param.init = {.type = "gaussian", .std = std};
    return nn::convolution(o);
  };
  const auto average = [] { return nn::pooling({.type = "average"}); };
  const auto normalise = [] { return nn::lrn({.size = 3, .alpha = 5e-5, .beta = 0.75}); };
  Net net({.name = "cnn"});
  net.input("label", {}, DType::int32).input("image", {32, 32, 3});
  net.add("conv1", conv(32, 1e-4, "linear")).add("pool1", nn::pooling({.type = "max"}));
  net.add("relu1", nn::activation({.function = "relu"})).add("norm1", normalise());
  net.add("conv2", conv(32, 0.01, "relu")).add("pool2", average()).add("norm2", normalise());
  net.add("conv3", conv(64, 0.01, "relu")).add("pool3", average());
  net.add("fc", nn::dense({.out = 10, .weight_param = {.init = {.type = "gaussian", .std = 0.01}}}));
  net.add("loss", nn::softmax_loss(), {.inputs = {"fc", "label"}});
  return net;
}

struct ExampleEntry {
  const char* name;
  Net (*make)();
};
const ExampleEntry kExamples[] = {{"autoencoder", autoencoder}, {"cnn", cnn}, {"mlp", mlp}, {"small", small}};

}  // namespace

std::vector<std::string> example_nets() {
  std::vector<std::string> names;
  for (const ExampleEntry& entry : kExamples) names.emplace_back(entry.name);
  return names;
}

Net example_net(const std::string& name) {
  for (const ExampleEntry& entry : kExamples) {
    if (name == entry.name) return entry.make();
  }
  throw InvalidArgument(unknown_name("net", name, example_nets()));
}

}  // namespace pleiad

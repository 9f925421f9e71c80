// A small convolutional net on Fashion-MNIST: alone, or `pleiad launch -n 2 fashion_cnn` on two ranks with the same
// result.
#include <zlib.h>

#include <cstdio>

#include "pleiad/error.h"
#include "pleiad/nn/layers.h"
#include "pleiad/train.h"

using namespace pleiad;  // NOLINT: an example
/// One file of the set: its bytes after the header.
static std::vector<unsigned char> read(const std::string& name, std::size_t header, std::size_t bytes) {
  const std::string path = "/usr/share/datasets/fashion-mnist/" + name;
  std::vector<unsigned char> all(header + bytes);
  gzFile file = gzopen(path.c_str(), "rb");
  const int got = gzread(file, all.data(), static_cast<unsigned>(all.size()));
  gzclose(file);
  if (got != static_cast<int>(all.size())) throw InvalidArgument(path + " is missing or too short");
  return {all.begin() + static_cast<std::ptrdiff_t>(header), all.end()};
}

static std::unique_ptr<Samples> load(const std::string& set, std::int64_t count) {
  const Tensor x(DType::float32, {count, 28, 28, 1}), label(DType::int32, {count});
  const auto pixels = read(set + "-images-idx3-ubyte.gz", 16, static_cast<std::size_t>(count) * 784);
  const auto classes = read(set + "-labels-idx1-ubyte.gz", 8, static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < pixels.size(); ++i) x.values<float>()[i] = static_cast<float>(pixels[i]) / 255.0F - 0.3F;
  for (std::size_t i = 0; i < classes.size(); ++i) label.values<std::int32_t>()[i] = classes[i];
  return array_samples({{"image", x}, {"label", label}});
}

int main(int argc, char** argv) try {
  auto session = Session::start();
  nn::ConvolutionOptions conv1 = nn::square(16, 5, 1, 2), conv2 = nn::square(32, 5, 1, 2);
  conv1.activation = conv2.activation = "relu";
  const nn::Param he = conv1.weight_param = conv2.weight_param = {.init = {.type = "he"}};
  nn::Net net({.name = "fashion_cnn"});
  net.input("label", {}, DType::int32).input("image", {28, 28, 1});
  net.add("conv1", nn::convolution(conv1)).add("pool1", nn::pooling({.type = "max", .kernel = 2, .stride = 2}));
  net.add("conv2", nn::convolution(conv2)).add("pool2", nn::pooling({.type = "max", .kernel = 2, .stride = 2}));
  net.add("hidden", nn::dense({.out = 128, .activation = "relu", .weight_param = he}));
  net.add("scores", nn::dense({.out = 10, .weight_param = he}));
  net.add("loss", nn::softmax_loss(), {.inputs = {"scores", "label"}});
  const std::int64_t steps = argc > 1 ? std::stoll(argv[1]) : 3000;
  TrainOptions options{
      .batch = 64, .updater = {.rule = "momentum", .momentum = 0.9}, .steps = steps, .display = 200, .test = 1000};
  options.schedule = {.type = "linear", .base = 0.02, .final = 0.001, .freq = steps};
  Trainer trainer(net, options, session);
  const auto train = load("train", 60000), test = load("t10k", 10000);
  trainer.run(*train, nullptr, test.get(), {.report = [&](const Report& r) {
    if (session.rank() != 0) return true;
    return std::printf("step %5ld, %s: loss %.4f, accuracy %.4f\n", static_cast<long>(r.step),
                       r.phase == nn::Phase::test ? "test" : "train", r.metrics[0].second, r.metrics[1].second) > 0;
  }});
  session.shutdown();
} catch (const std::exception& error) {
  return std::fprintf(stderr, "fashion_cnn: %s\n", error.what()), 1;
}

// One measurement for bench/spatial.py: a net of 5x5 convolutions over large images, split over a grid of all ranks.
// Prints one JSON line: microseconds of a step, and the first losses, which do not depend on the number of ranks.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "core/process.h"
#include "core/random.h"
#include "core/threads.h"
#include "pleiad/nn/layers.h"
#include "pleiad/train.h"

using namespace pleiad;  // NOLINT

namespace {

nn::Net wide(std::int64_t side) {
  nn::Net net({.name = "wide"});
  net.input("label", {}, DType::int32).input("x", {side, side, 3});
  const auto conv = [&](const char* name, std::int64_t filters) {
    nn::ConvolutionOptions o = nn::square(filters, 5, 1, 2);
    o.activation = "relu";
    o.weight_param = {.init = {.type = "he"}};
    net.add(name, nn::convolution(o));
  };
  const auto pool = [&](const char* name) { net.add(name, nn::pooling({.kernel = 2, .stride = 2})); };
  conv("conv1", 16);
  conv("conv2", 16);
  pool("pool1");
  conv("conv3", 32);
  pool("pool2");
  conv("conv4", 32);
  pool("pool3");
  net.add("out", nn::dense({.out = 10, .weight_param = {.init = {.type = "he"}}}));
  net.add("loss", nn::softmax_loss(), {.inputs = {"out", "label"}});
  return net;
}

}  // namespace

int main(int argc, char** argv) try {
  const auto word = [&](int i, const char* usual) { return std::string(argc > i ? argv[i] : usual); };
  const std::string grid = word(1, "auto");
  const std::int64_t side = std::stoll(word(2, "256"));
  const std::int64_t batch = std::stoll(word(3, "4"));
  const int steps = std::stoi(word(4, "5"));
  const double delay_ms = std::stod(word(5, "0"));
  const std::string overlap = word(6, "auto");
  auto session = Session::start();
  nn::Net net = wide(side);
  {
    TrainOptions o{.batch = batch, .updater = {.rule = "sgd", .learning_rate = 1e-6}};
    o.plan = {.kind = "spatial", .grid = grid, .overlap = overlap, .halo_delay = delay_ms / 1e3};
    Trainer trainer(net, o, session);
    set_compute_threads(1);
    const Tensor x(DType::float32, {batch, side, side, 3});
    const Tensor label(DType::int32, {batch});
    for (std::int64_t i = 0; i < batch; ++i) {
      label.values<std::int32_t>()[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(i % 10);
    }
    const RandomStream noise(3, "bench");
    for (std::int64_t i = 0; i < x.count(); ++i) {
      x.values<float>()[static_cast<std::size_t>(i)] =
          static_cast<float>(noise.gaussian(static_cast<std::uint64_t>(i)));
    }
    const auto samples = array_samples({{"x", x}, {"label", label}}, {.shuffle = false});
    samples->fill(net, 0, trainer.local_batch());
    std::vector<double> losses;
    for (int i = 0; i < 2; ++i) losses.push_back(trainer.step());
    std::vector<double> turns;
    for (int i = 0; i < steps; ++i) {
      session.barrier();
      const std::int64_t start = now_ns();
      (void)trainer.step();
      session.barrier();
      turns.push_back(static_cast<double>(now_ns() - start) / 1e3);
    }
    std::ranges::sort(turns);
    if (session.rank() == 0) {
      std::printf("{\"ranks\": %d, \"step_us\": %.1f, \"losses\": [%.7g, %.7g]}\n", session.size(),
                  turns[turns.size() / 2], losses[0], losses[1]);
    }
  }
  session.shutdown();
} catch (const std::exception& error) {
  return std::fprintf(stderr, "bench_spatial: %s\n", error.what()), 1;
}

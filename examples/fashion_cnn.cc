// A small convolutional net on Fashion-MNIST. `pleiad launch -n 2 fashion_cnn` trains it on two ranks with the same
// result as one. `fashion_cnn 3000 run` keeps checkpoints in the folder "run" and resumes from the last of them.
#include <cstdio>

#include "pleiad/data.h"
#include "pleiad/nn/layers.h"
#include "pleiad/train.h"

using namespace pleiad;  // NOLINT: an example

static std::unique_ptr<Samples> load(const std::string& part) {
  return store_samples(open_dataset({.name = "fashion-mnist", .part = part}),
                       {.transform = {.mean = {76.5}, .scale = 1.0 / 255}});
}

int main(int argc, char** argv) try {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // a report is visible at once, also in a file
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
  if (argc > 2) options.checkpoint = 500, options.checkpoint_folder = argv[2];
  const auto train = load("train"), test = load("test");
  {
    Trainer trainer(net, options, session);
    if (argc > 2 && trainer.resume() && session.rank() == 0) std::puts("from a checkpoint");
    trainer.run(*train, nullptr, test.get(), {.report = [&](const Report& r) {
      if (session.rank() != 0) return true;
      return std::printf("step %5ld, %s: loss %.4f, accuracy %.4f\n", static_cast<long>(r.step),
                         r.phase == nn::Phase::test ? "test" : "train", r.metrics[0].second, r.metrics[1].second) > 0;
    }});
  }
  session.shutdown();
} catch (const std::exception& error) {
  return std::fprintf(stderr, "fashion_cnn: %s\n", error.what()), 1;
}

// Trains the tests' small net on all ranks: train_small PLAN EXCHANGE RULE [EVENTS]. Rank 0 prints the losses.
#include <cstdio>

#include "pleiad/session.h"
#include "tests/train/small_run.h"

int main(int argc, char** argv) try {
  using namespace pleiad;  // NOLINT
  if (argc != 4 && argc != 5) return std::fprintf(stderr, "usage: train_small PLAN EXCHANGE RULE [EVENTS]\n"), 2;
  auto session = Session::start();
  nn::Net net = test::cnn(4, true);
  {
    TrainOptions options = test::options(argv[3], argv[2]);
    options.plan.kind = argv[1];
    if (argc == 5) {
      options.events = argv[4];
      options.events_details = 10;
      options.events_pictures = {"x"};
    }
    Trainer trainer(net, options, session);
    const auto from = test::samples();
    for (const double loss : test::trace(trainer, *from)) {
      if (session.rank() == 0) std::printf("%.9g\n", loss);
    }
  }
  session.shutdown();
} catch (const std::exception& error) {
  return std::fprintf(stderr, "train_small: %s\n", error.what()), 1;
}

// One measurement for bench/nn_scale.py: trains a net on all ranks, with a fixed batch per rank. Prints one JSON line:
// microseconds of a step as wall and processor time, and the peak of resident memory.
#include <sys/resource.h>

#include <cstdio>
#include <string>
#include <vector>

#include "core/process.h"
#include "core/random.h"
#include "core/threads.h"
#include "pleiad/train.h"

using namespace pleiad;  // NOLINT

namespace {

double cpu_us() {
  struct rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string name = argc > 1 ? argv[1] : "cnn";
  const std::int64_t batch = argc > 2 ? std::stoll(argv[2]) : 100;
  const int steps = argc > 3 ? std::stoi(argv[3]) : 20;
  auto session = Session::start();
  nn::Net net = example_net(name);
  {
    Trainer trainer(net, {.batch = batch * session.size(), .updater = {.rule = "momentum", .momentum = 0.9}}, session);
    set_compute_threads(1);
    const RandomStream noise(static_cast<std::uint64_t>(session.rank()) + 1, "bench");
    for (const std::string& input : net.input_names()) {
      const Tensor tensor = net.input_tensor(input);
      for (std::int64_t i = 0; i < tensor.count(); ++i) {
        const auto at = static_cast<std::uint64_t>(i);
        if (tensor.dtype() == DType::int32) {
          tensor.values<std::int32_t>()[at] = static_cast<std::int32_t>(i % 10);
        } else {
          tensor.values<float>()[at] = static_cast<float>(noise.gaussian(at));
        }
      }
    }
    for (int i = 0; i < 3; ++i) (void)trainer.step();
    session.barrier();
    const std::int64_t start = now_ns();
    const double cpu = cpu_us();
    for (int i = 0; i < steps; ++i) (void)trainer.step();
    const double used = (cpu_us() - cpu) / steps;
    session.barrier();
    const double wall = static_cast<double>(now_ns() - start) / 1e3 / steps;
    struct rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    std::vector<double> most = {used, static_cast<double>(usage.ru_maxrss) / 1024};
    session.all_reduce(most, ReduceOp::max);
    if (session.rank() == 0) {
      std::printf("{\"ranks\": %d, \"step_us\": %.1f, \"cpu_us\": %.1f, \"rss_mb\": %.1f}\n", session.size(), wall,
                  most[0], most[1]);
    }
  }
  session.shutdown();
} catch (const std::exception& error) {
  return std::fprintf(stderr, "bench_nn_scale: %s\n", error.what()), 1;
}

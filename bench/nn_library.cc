// The training engine for bench/nn.py: nets from text, steps, parameters. Errors are printed and answered by null or
// -1.
#include <cstdio>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>

#include "core/threads.h"
#include "pleiad/error.h"
#include "pleiad/nn/layers.h"
#include "pleiad/train.h"

namespace {

using namespace pleiad;  // NOLINT

struct Bench {
  std::unique_ptr<nn::Net> net;
  std::unique_ptr<Trainer> trainer;
};

/// Lines "input NAME LENGTH..." or "label NAME", and "NAME KIND [from=A,B] [option=value]...".
std::unique_ptr<nn::Net> read_net(const std::string& text, DType dtype) {
  auto net = std::make_unique<nn::Net>(nn::NetOptions{.dtype = dtype});
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name;
    std::string kind;
    if (!(words >> name >> kind)) continue;
    if (name == "label") {
      net->input(kind, {}, DType::int32);
    } else if (name == "input") {
      std::vector<std::int64_t> lengths;
      for (std::int64_t length = 0; words >> length;) lengths.push_back(length);
      net->input(kind, Shape(lengths));
    } else {
      nn::LayerFields fields;
      nn::Placement placement;
      for (std::string word; words >> word;) {
        const std::size_t equals = word.find('=');
        const std::string key = word.substr(0, equals);
        const std::string value = word.substr(equals + 1);
        if (key != "from") {
          fields.emplace_back(key, value);
          continue;
        }
        std::istringstream names(value);
        for (std::string from; std::getline(names, from, ',');) placement.inputs.push_back(from);
      }
      net->add(name, nn::make_layer(kind, fields), placement);
    }
  }
  return net;
}

template <class Body, class Failure>
auto guarded(Failure failure, Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "bench: %s\n", problem.what());
    return failure;
  }
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) void* bench_new(const char* text, std::int64_t batch, const char* rule,
                                                       double rate, double momentum, int threads) {
  return guarded(static_cast<void*>(nullptr), [&]() -> void* {
    set_compute_threads(threads);
    auto bench = std::make_unique<Bench>();
    bench->net = read_net(text, DType::float32);
    bench->trainer = std::make_unique<Trainer>(
        *bench->net,
        TrainOptions{.batch = batch,
                     .updater = {.rule = rule, .learning_rate = rate, .momentum = momentum, .epsilon = 1e-10}});
    return bench.release();
  });
}

__attribute__((visibility("default"))) void bench_delete(void* bench) { delete static_cast<Bench*>(bench); }

/// The memory of an input or a parameter, and how many numbers it has.
__attribute__((visibility("default"))) void* bench_tensor(void* handle, const char* name, int is_input,
                                                          std::int64_t* count) {
  return guarded(static_cast<void*>(nullptr), [&]() -> void* {
    nn::Net& net = *static_cast<Bench*>(handle)->net;
    const Tensor tensor = is_input != 0 ? net.input_tensor(name) : net.parameter(name).value;
    *count = tensor.count();
    return tensor.raw();
  });
}

__attribute__((visibility("default"))) double bench_steps(void* handle, int steps) {
  return guarded(-1.0, [&] {
    double loss = 0;
    for (int i = 0; i < steps; ++i) loss = static_cast<Bench*>(handle)->trainer->step();
    return loss;
  });
}

}  // extern "C"

// The parameter initialisers. To add one, add an entry to kInitialisers.
#include "pleiad/nn/init.h"

#include <algorithm>
#include <cmath>

#include "core/random.h"
#include "core/text.h"
#include "core/threads.h"
#include "kernel/types.h"

namespace pleiad::nn {
namespace {

enum class Draw : std::uint8_t { none, gaussian, uniform };

/// The initial value of an element is sample * factor + shift. The sample is drawn as `draw` says; it is 0 for none.
struct Distribution {
  Draw draw;
  double factor;
  double shift;
};

struct Initialiser {
  const char* name;
  Distribution (*distribution)(const Init&, double fan_in, double fan_out);
};

Distribution gaussian(const Init& i, double by) {
  return {Draw::gaussian, i.value * i.std / by, i.value * i.mean / by};
}
Distribution uniform(const Init& i, double by) {
  return {Draw::uniform, i.value * (i.high - i.low) / by, i.value * i.low / by};
}
Distribution symmetric(double bound) { return {Draw::uniform, 2 * bound, -bound}; }

const Initialiser kInitialisers[] = {
    {"auto_uniform", [](const Init&, double in, double) { return symmetric(1 / std::sqrt(in)); }},
    {"constant", [](const Init& i, double, double) { return Distribution{Draw::none, 0, i.value}; }},
    {"gaussian", [](const Init& i, double, double) { return gaussian(i, 1); }},
    {"gaussian_sqrt_fan_in", [](const Init& i, double in, double) { return gaussian(i, std::sqrt(in)); }},
    {"he", [](const Init&, double in, double) { return Distribution{Draw::gaussian, std::sqrt(2 / in), 0}; }},
    {"node_normalized",
     [](const Init& i, double in, double out) { return symmetric(i.scale * std::sqrt(6 / (in + out))); }},
    {"uniform", [](const Init& i, double, double) { return uniform(i, 1); }},
    {"uniform_sqrt_fan_in", [](const Init& i, double in, double) { return uniform(i, std::sqrt(in / 3)); }},
    {"uniform_sqrt_fan_in_out", [](const Init& i, double in, double out) { return uniform(i, std::sqrt(in + out)); }},
};

}  // namespace

std::vector<std::string> init_names() {
  std::vector<std::string> names;
  for (const Initialiser& entry : kInitialisers) names.emplace_back(entry.name);
  return names;
}

void initialise(const Tensor& to, const Init& init, std::int64_t fan_in, std::int64_t fan_out, std::uint64_t seed,
                const std::string& name) {
  const auto* const entry = std::ranges::find(kInitialisers, init.type, &Initialiser::name);
  if (entry == std::end(kInitialisers)) throw InvalidArgument(unknown_name("initialiser", init.type, init_names()));
  const Distribution distribution = entry->distribution(init, static_cast<double>(std::max<std::int64_t>(fan_in, 1)),
                                                        static_cast<double>(std::max<std::int64_t>(fan_out, 1)));
  const RandomStream stream(seed, name);
  kernel::by_type(to.dtype(), [&]<class T>(T) {
    T* values = kernel::data<T>(to);
    parallel_for(to.count(), 4096, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto element = static_cast<std::uint64_t>(i);
        double sample = 0;
        if (distribution.draw == Draw::gaussian) sample = stream.gaussian(element);
        if (distribution.draw == Draw::uniform) sample = stream.uniform(element);
        values[i] = static_cast<T>(sample * distribution.factor + distribution.shift);
      }
    });
  });
}

}  // namespace pleiad::nn

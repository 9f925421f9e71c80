// Functions that the tests of the update rules share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <set>

#include "pleiad/error.h"
#include "updater/updater.h"

namespace pleiad {

using Real = long double;

// Values and their state as a table holds them: one unit, some workers.
template <class T>
struct Shard {
  Shard(const Updater& rule, std::vector<T> start, int workers = 1)
      : layout(rule.state()), values(std::move(start)), per_unit(static_cast<std::size_t>(layout.per_unit)) {
    const std::vector<T> zero(values.size());
    per_element.assign(static_cast<std::size_t>(layout.per_element), zero);
    const auto& first = layout.per_worker_starts_as_value ? values : zero;
    per_worker.assign(static_cast<std::size_t>(workers),
                      std::vector<std::vector<T>>(static_cast<std::size_t>(layout.per_worker), first));
  }

  void add(const Updater& rule, const std::vector<T>& delta, const Rates& rates, std::size_t worker = 0) {
    Update<T> update{.value = values.data(), .delta = delta.data(), .count = values.size(), .rates = rates};
    std::size_t k = 0;
    for (auto& state : per_element) update.state[k++] = state.data();
    for (auto& state : per_worker[worker]) update.state[k++] = state.data();
    update.unit = per_unit.empty() ? nullptr : per_unit.data();
    rule.apply(update);
  }

  bool operator==(const Shard& other) const {
    return values == other.values && per_element == other.per_element && per_worker == other.per_worker &&
           per_unit == other.per_unit;
  }

  StateLayout layout;
  std::vector<T> values;
  std::vector<std::vector<T>> per_element;
  std::vector<std::vector<std::vector<T>>> per_worker;
  std::vector<double> per_unit;
};

inline std::mt19937& generator() {
  static std::mt19937 engine(20240611);
  return engine;
}

template <class T>
std::vector<T> random_values(std::size_t count, double size = 1) {
  std::normal_distribution<double> normal(0, size);
  std::vector<T> values(count);
  for (T& value : values) value = static_cast<T>(normal(generator()));
  return values;
}

inline std::vector<std::size_t> counts() {
  return {0, 1, 31, 1000, std::uniform_int_distribution<std::size_t>(2, 3000)(generator())};
}

// ---------------------------------------------------------------------------------------------------------------------
// Options that the tests combine.

constexpr Real kMomentum = 0.9L, kRho = 0.2L, kLambda = 0.7L, kEpsilon = 0.1L;

inline void ascending(UpdaterOptions& o) { o.ascend = true; }
inline void prescaled(UpdaterOptions& o) { o.prescaled = true; }
inline void damped(UpdaterOptions& o) { o.damped = true; }
inline void rate_in_velocity(UpdaterOptions& o) { o.rate_in_velocity = true; }
inline void inside(UpdaterOptions& o) { o.epsilon_inside_root = true; }
inline void per_worker(UpdaterOptions& o) { o.per_worker = true; }
inline void adaptive(UpdaterOptions& o) { o.adaptive = true; }
inline void uncorrected(UpdaterOptions& o) { o.bias_correction = false; }
inline void decaying(UpdaterOptions& o) { o.weight_decay = 0.3; }
inline void negated(UpdaterOptions& o) { o.scale = -3; }
inline void capped(UpdaterOptions& o) { o.clip_low = -std::numeric_limits<double>::infinity(), o.clip_high = 0.25; }
inline void shaped(UpdaterOptions& o) { o.scale = 0.5, o.clip_low = -0.8, o.clip_high = 1.1, o.weight_decay = 0.02; }
inline Real shape(Real d, Real w) { return 0.5L * std::min(std::max(d, -0.8L), 1.1L) + 0.02L * w; }

template <class... Change>
UpdaterOptions usual(std::string rule, Change... change) {
  UpdaterOptions options{.rule = std::move(rule), .learning_rate = 0.05, .momentum = 0.9, .rho = 0.2, .lambda = 0.7};
  options.epsilon = 0.1;
  (change(options), ...);
  return options;
}

inline std::string test_name(std::string name) {
  std::ranges::replace(name, '/', '_');
  return name;
}

}  // namespace pleiad

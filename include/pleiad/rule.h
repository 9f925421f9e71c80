// Register your own update rules for tables.
//
//   pleiad::register_rule("sign", {}, [](auto update) {
//     for (std::size_t i = 0; i < update.value.size(); ++i) {
//       update.value[i] -= update.learning_rate * ((update.delta[i] > 0) - (update.delta[i] < 0));
//     }
//   });
//   auto table = session.create_array(1000, {.updater = {.rule = "sign", .learning_rate = 0.1}});
#pragma once

#include <array>
#include <functional>
#include <span>
#include <string>

#include "pleiad/api.h"

namespace pleiad {

/// The state that a rule keeps beside the values. All of it starts as zero and is saved in snapshots.
struct RuleLayout {
  int arrays = 0;         ///< arrays with one element of the table's type for each value
  int worker_arrays = 0;  ///< the same, separately for each worker; `arrays` + `worker_arrays` is at most 4
  int numbers = 0;        ///< number of doubles for each unit: a row of a matrix, a block of an array
  /// applying two deltas in turn equals applying their sum, so they may be summed on the way to the server
  bool additive = false;
};

/// A run of consecutive values inside one unit, and the delta for them. If the rule keeps `numbers`, the run is exactly
/// one unit.
template <class T>
struct RuleUpdate {
  std::span<T> value;
  std::span<const T> delta;
  std::array<std::span<T>, 4> state;  ///< the `arrays`, then the `worker_arrays` of the adding worker
  std::span<double> numbers;
  double learning_rate = 0;
  double momentum = 0;
  double rho = 0;
  double lambda = 0;
};

/// Registers a rule in this process for tables created from now on, and replaces an earlier rule of that name. Every
/// process of the job must register it. The rule runs on the host that holds the values, in the thread of the adding
/// rank or in a thread that serves the host, while the lock of the values is held. It must therefore be fast, must not
/// call Pleiad, and must not keep references to its argument. An exception from the rule becomes a RuleError of the add
/// (with apply = round: of the call that completes the round), which may have been applied in part. Supports float32
/// and float64. Throws InvalidArgument if Pleiad uses the name itself.
PLEIAD_API void register_rule(const std::string& name, const RuleLayout& layout,
                              std::function<void(const RuleUpdate<float>&)> apply_float32,
                              std::function<void(const RuleUpdate<double>&)> apply_float64);

/// The same with one generic callable that accepts both kinds of update.
template <class F>
void register_rule(const std::string& name, const RuleLayout& layout, F apply) {
  register_rule(
      name, layout, [apply](const RuleUpdate<float>& update) { apply(update); },
      [apply](const RuleUpdate<double>& update) { apply(update); });
}

}  // namespace pleiad

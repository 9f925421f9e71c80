// Update rules of your own, for tables.
//
//   pleiad::register_rule("sign", {}, [](auto update) {
//     for (std::size_t i = 0; i < update.value.size(); ++i) {
//       update.value[i] -= update.learning_rate * (update.delta[i] > 0) - (update.delta[i] < 0);
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

/// What a rule keeps beside the values. All of it starts as zero and is saved in snapshots.
struct RuleLayout {
  int arrays = 0;         ///< with one number an element, of the table's type
  int worker_arrays = 0;  ///< the same for each worker; together with `arrays` at most 4
  int numbers = 0;        ///< doubles for each unit: a row of a matrix, a block of an array
  bool additive = false;  ///< two deltas one after another change the values as their sum does: they may be summed
                          ///< on the way
};

/// One run of values and the change that was asked for. Where the rule keeps numbers, the run is one whole unit.
template <class T>
struct RuleUpdate {
  std::span<T> value;
  std::span<const T> delta;
  std::array<std::span<T>, 4> state;  ///< `arrays` of them, then this worker's `worker_arrays`
  std::span<double> numbers;
  double learning_rate = 0;
  double momentum = 0;
  double rho = 0;
  double lambda = 0;
};

/// Makes a rule known in this process, for tables created from now on; one of that name is replaced. Every process of
/// the job registers it: it runs wherever the values lie, in the thread of the rank that adds or of one that serves its
/// host, with the lock of the values held. So it must be quick, must not call Pleiad and must not keep what it is
/// given. What it throws is a RuleError of the add (with apply = round: of the call that completes the round), which
/// may have been carried out in part. For float32 and float64. An InvalidArgument for a name that Pleiad uses.
PLEIAD_API void register_rule(const std::string& name, const RuleLayout& layout,
                              std::function<void(const RuleUpdate<float>&)> apply_float32,
                              std::function<void(const RuleUpdate<double>&)> apply_float64);

/// `apply` takes both kinds of update.
template <class F>
void register_rule(const std::string& name, const RuleLayout& layout, F apply) {
  register_rule(
      name, layout, [apply](const RuleUpdate<float>& update) { apply(update); },
      [apply](const RuleUpdate<double>& update) { apply(update); });
}

}  // namespace pleiad

// The interface of update rules, which table shards and the trainer share.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pleiad/options.h"

namespace pleiad {

inline constexpr std::size_t kMaxStates = 4;

/// The state that a rule keeps beside the values. The owner of the values allocates it, 64-byte aligned. It starts as
/// zero, or as a copy of the values if `per_worker_starts_as_value`.
struct StateLayout {
  int per_element = 0;  ///< arrays with one element of the table's type for each value
  int per_worker = 0;   ///< the same, separately for each worker
  int per_unit = 0;     ///< number of doubles for each unit: a row of a matrix, a block of an array
  bool per_worker_starts_as_value = false;
};

/// The rates of one add, merged from the options of the table and of the add.
struct Rates {
  double learning_rate = 0;
  double momentum = 0;
  double rho = 0;
  double lambda = 0;
};
/// `table` must be resolved and accepted by make_updater. An invalid value in `add` is an InvalidArgument.
[[nodiscard]] Rates merge(const UpdaterOptions& table, const AddOptions& add);

/// A run of consecutive values inside one unit, the delta for them, and their state. state[k] points to the state of
/// value[0]: first the per_element arrays, then the per_worker arrays of the adding worker. The arrays do not overlap.
template <class T>
struct Update {
  T* value = nullptr;
  const T* delta = nullptr;
  std::size_t count = 0;
  std::array<T*, kMaxStates> state{};
  double* unit = nullptr;  ///< the per_unit doubles of this unit
  Rates rates;
};

/// An update rule. It is immutable: any number of threads may apply it to different values at once.
class Updater {
 public:
  virtual ~Updater() = default;
  [[nodiscard]] virtual StateLayout state() const { return {}; }

  /// Called while the stripe's lock is held, so it must not block, allocate or throw. A unit is always updated as a
  /// whole, in one call. Integer tables accept only `sum`; make_updater refuses others.
  virtual void apply(const Update<float>& update) const = 0;
  virtual void apply(const Update<double>& update) const = 0;
  virtual void apply(const Update<std::int32_t>& update) const;
  virtual void apply(const Update<std::int64_t>& update) const;

  /// Returns true if summing deltas and applying once gives the same result as applying each at equal rates (sum, and
  /// sgd without decay and clipping).
  [[nodiscard]] virtual bool additive() const { return false; }

  /// Returns true if an add moves the values against the delta, as training by gradients requires.
  [[nodiscard]] virtual bool descends() const { return true; }

  /// value = keep * value + factor * delta.
  struct Linear {
    double keep = 1;
    double factor = 0;
  };
  /// Returns the coefficients if this is all that the rule does at these rates. A matrix product can then apply the
  /// rule while it computes the delta.
  [[nodiscard]] virtual std::optional<Linear> linear(const Rates&) const { return std::nullopt; }
};

/// Returns the rule for `options`, whose name may be that of another system's rule. An unknown name is an
/// InvalidArgument that lists the known ones.
[[nodiscard]] std::unique_ptr<Updater> make_updater(const UpdaterOptions& options, DType dtype);

/// Replaces the name of another system's rule ("multiverso/adagrad") by Pleiad's rule with its fields preset. Other
/// fields stay unchanged.
[[nodiscard]] UpdaterOptions resolve_dialect(const UpdaterOptions& options);

/// The names of Pleiad's rules in alphabetical order, and the names of the rules of other systems.
[[nodiscard]] std::vector<std::string> updater_names();
[[nodiscard]] std::vector<std::string> dialect_names();

}  // namespace pleiad

// The family of update rules: one serves the tables' shards and the trainer.
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

/// What a rule keeps beside the values. The owner of the values allocates it, 64-byte aligned; it starts as zero, or as
/// a copy of the values where `per_worker_starts_as_value` says so.
struct StateLayout {
  int per_element = 0;  ///< arrays with one number an element, of the table's type
  int per_worker = 0;   ///< arrays with one number an element for each worker
  int per_unit = 0;     ///< doubles for each unit: a row of a matrix, a block of an array
  bool per_worker_starts_as_value = false;
};

/// The numbers of one add, merged from the table's options and the add's.
struct Rates {
  double learning_rate = 0;
  double momentum = 0;
  double rho = 0;
  double lambda = 0;
};
/// `table` is resolved and was accepted by make_updater. A bad number in `add` is an InvalidArgument.
[[nodiscard]] Rates merge(const UpdaterOptions& table, const AddOptions& add);

/// One run of values inside one unit, the change asked for, and the state beside it. state[k] points to the state of
/// value[0]: first the per_element arrays, then this worker's per_worker arrays. No two arrays overlap.
template <class T>
struct Update {
  T* value = nullptr;
  const T* delta = nullptr;
  std::size_t count = 0;
  std::array<T*, kMaxStates> state{};
  double* unit = nullptr;  ///< per_unit doubles of this unit
  Rates rates;
};

/// A rule has no members that change: any number of threads may apply it to different values at once.
class Updater {
 public:
  virtual ~Updater() = default;
  [[nodiscard]] virtual StateLayout state() const { return {}; }

  /// Called with the stripe's lock held: does not block, allocate or throw. A unit is always updated as a whole, in one
  /// call. Integer tables take `sum` only; make_updater refuses others.
  virtual void apply(const Update<float>& update) const = 0;
  virtual void apply(const Update<double>& update) const = 0;
  virtual void apply(const Update<std::int32_t>& update) const;
  virtual void apply(const Update<std::int64_t>& update) const;

  /// True where adding deltas first and applying once gives the same as applying each at equal
  /// rates (sum, and sgd without decay and clip).
  [[nodiscard]] virtual bool additive() const { return false; }

  /// value = keep * value + factor * delta.
  struct Linear {
    double keep = 1;
    double factor = 0;
  };
  /// Where that is all the rule does at these rates: so a matrix product can do it as it makes the delta.
  [[nodiscard]] virtual std::optional<Linear> linear(const Rates&) const { return std::nullopt; }
};

/// The rule that `options` ask for, a dialect's name resolved. An unknown name is an InvalidArgument that lists the
/// known ones.
[[nodiscard]] std::unique_ptr<Updater> make_updater(const UpdaterOptions& options, DType dtype);

/// Replaces a dialect's name ("multiverso/adagrad") by Pleiad's rule with the fields preset; other fields stay.
[[nodiscard]] UpdaterOptions resolve_dialect(const UpdaterOptions& options);

/// Pleiad's rules, in alphabetical order; and the dialects' names.
[[nodiscard]] std::vector<std::string> updater_names();
[[nodiscard]] std::vector<std::string> dialect_names();

}  // namespace pleiad

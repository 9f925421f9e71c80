// The update rule of one parameter with its state. The rules are those of the tables, applied to the net's memory.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "kernel/update.h"
#include "pleiad/nn/net.h"
#include "updater/updater.h"

namespace pleiad {

/// Throws InvalidArgument for rules that do not descend along the gradient: "sum", which is the default of
/// UpdaterOptions.
void check_descends(const UpdaterOptions& options);

class ParameterRule final : public kernel::BlockUpdate {
 public:
  ParameterRule(const nn::Parameter& parameter, const UpdaterOptions& options);
  /// Sets the rates of a step. Call it before the step's first update.
  void begin_step(double learning_rate, double momentum);
  /// Updates the whole parameter on the compute threads.
  void apply_all(const Tensor& gradient);
  /// Call it after the last block of a step.
  void end_step();
  /// Returns the first error of a user's rule since the last call, or an empty text.
  [[nodiscard]] std::string take_problem();

  [[nodiscard]] std::optional<Linear> linear() const override { return linear_; }
  void apply(std::int64_t begin, std::int64_t count, const void* gradient) override;

  /// The state that a checkpoint holds: the arrays per element, and the values per unit.
  [[nodiscard]] const std::vector<Tensor>& history() const { return history_; }
  [[nodiscard]] const Tensor& unit() const { return unit_; }

 private:
  template <class T>
  void guarded(const Update<T>& update);

  const Tensor value_;
  const double rate_scale_;
  std::unique_ptr<Updater> rule_;
  UpdaterOptions options_;
  Rates rates_;
  std::optional<Linear> linear_;
  std::vector<Tensor> history_;  // per element
  Tensor unit_;                  // per unit; a parameter is one unit
  Tensor next_unit_;             // the unit state after this step; every block computes the same
  // catch exceptions of a user's rule, because they must not leave a compute thread or end a step midway
  bool guard_ = false;
  std::mutex mutex_;
  std::string problem_;  // the first error; guarded by mutex_
};

/// Calls `of` for every element and returns the first text that is not empty.
template <class All, class F>
[[nodiscard]] std::string first_problem(const All& all, F of) {
  std::string first;
  for (const auto& one : all) {
    if (std::string problem = std::invoke(of, one); first.empty()) first = std::move(problem);
  }
  return first;
}

}  // namespace pleiad

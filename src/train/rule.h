// One parameter's update rule with its state: the tables' own rules, on the net's memory.
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

/// Refuses rules that do not go down a gradient: "sum", which an UpdaterOptions has that names none.
void check_descends(const UpdaterOptions& options);

class ParameterRule final : public kernel::BlockUpdate {
 public:
  ParameterRule(const nn::Parameter& parameter, const UpdaterOptions& options);
  /// Before each step: its rates.
  void begin_step(double learning_rate, double momentum);
  /// The whole parameter, by the compute threads.
  void apply_all(const Tensor& gradient);
  /// After the step's last piece.
  void end_step();
  /// What a user's rule threw since it was last asked for; empty where nothing was.
  [[nodiscard]] std::string take_problem();

  [[nodiscard]] std::optional<Linear> linear() const override { return linear_; }
  void apply(std::int64_t begin, std::int64_t count, const void* gradient) override;

  /// The history, and one number a unit: what a checkpoint holds.
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
  Tensor next_unit_;             // what the pieces of this step leave, all the same
  bool guard_ = false;           // a user's rule may throw, where compute threads and the midst of a step must not
  std::mutex mutex_;
  std::string problem_;  // the first one; guarded by mutex_
};

/// The first of what `of` finds for each; all are asked.
template <class All, class F>
[[nodiscard]] std::string first_problem(const All& all, F of) {
  std::string first;
  for (const auto& one : all) {
    if (std::string problem = std::invoke(of, one); first.empty()) first = std::move(problem);
  }
  return first;
}

}  // namespace pleiad

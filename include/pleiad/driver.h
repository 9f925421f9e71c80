// SINGA's Driver: write your own main, with your own layers and updaters.
//
//   int main(int argc, char** argv) {
//     pleiad::Driver driver;
//     driver.Init(argc, argv);                      // -conf job.conf [-resume] [-test]
//     driver.RegisterLayer<FooLayer>("kFooLayer");  // for layers with user_type: "kFooLayer"
//     driver.RegisterUpdater("kFooUpdater", foo_rule);
//     driver.test() ? driver.Test(driver.job_conf()) : driver.Train(driver.resume(), driver.job_conf());
//   }
//
// Link with pleiad::pleiad_job (find_package) or pleiad_job (pkg-config).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "pleiad/api.h"
#include "pleiad/job.h"
#include "pleiad/rule.h"

namespace pleiad {

/// Runs jobs on this process, or on the ranks that a launcher started. All ranks make the same calls.
class PLEIAD_API Driver {
 public:
  /// Reads -conf FILE, -resume and -test. Accepts and ignores -singa_conf X and -singa_job X. All other arguments
  /// belong to the program: see rest().
  void Init(int argc, char** argv);
  /// Returns the job of -conf. Throws InvalidArgument if there was no -conf.
  [[nodiscard]] const Job& job_conf() const;
  [[nodiscard]] bool resume() const { return resume_; }
  [[nodiscard]] bool test() const { return test_; }
  [[nodiscard]] const std::vector<std::string>& rest() const { return rest_; }

  /// Makes a T for every layer with this user_type. If T has a constructor from a string, it receives the serialized
  /// LayerProto; otherwise T is default-constructed. params_of_job_layer() returns the parameter settings that the job
  /// gives to the layer.
  template <class T>
  void RegisterLayer(const std::string& user_type) {
    register_job_layer(user_type, [](const std::string& conf) -> nn::LayerPtr {
      if constexpr (std::is_constructible_v<T, const std::string&>) {
        return std::make_unique<T>(conf);
      } else {
        return std::make_unique<T>();
      }
    });
  }
  void RegisterLayer(const std::string& user_type, JobLayerMaker maker) {
    register_job_layer(user_type, std::move(maker));
  }

  /// Uses one of Pleiad's rules, with its settings, for every updater with this user_type.
  void RegisterUpdater(const std::string& user_type, const UpdaterOptions& options) {
    register_job_updater(user_type, options);
  }
  /// Uses the caller's own rule: rule(update) changes update.value by update.delta, the gradient. Several threads call
  /// it at once, for disjoint runs of values. An exception that the rule throws on any rank becomes a RuleError after
  /// that step. If one worker group makes every step together, all ranks throw it. Otherwise only that rank throws it,
  /// and the others receive an error that the rank has left.
  template <class F>
    requires std::is_invocable_v<F, const RuleUpdate<float>&>
  void RegisterUpdater(const std::string& user_type, F rule, const RuleLayout& layout = {}) {
    register_rule(user_type, layout, std::move(rule));
    register_job_updater(user_type, {.rule = user_type});
  }

  /// Trains to the end. With `resume`, continues from the last checkpoint of the workspace. May be called repeatedly.
  JobResult Train(bool resume, const Job& job);
  JobResult Train(const Job& job) { return Train(resume_, job); }
  /// Tests the parameters in the job's checkpoint_path.
  JobResult Test(const Job& job);

 private:
  std::optional<Job> job_;
  bool resume_ = false;
  bool test_ = false;
  std::vector<std::string> rest_;
};

}  // namespace pleiad

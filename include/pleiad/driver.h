// SINGA's Driver: a main of one's own, with layers and updaters of one's own.
//
//   int main(int argc, char** argv) {
//     pleiad::Driver driver;
//     driver.Init(argc, argv);                      // -conf job.conf [-resume] [-test]
//     driver.RegisterLayer<FooLayer>("kFooLayer");  // for layers with user_type: "kFooLayer"
//     driver.RegisterUpdater("kFooUpdater", foo_rule);
//     driver.Train(driver.resume(), driver.job_conf());
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

/// Runs jobs on this process, or on the ranks that a launcher started, all of which make the same calls.
class PLEIAD_API Driver {
 public:
  /// Looks at -conf FILE, -resume and -test; -singa_conf X and -singa_job X are taken and passed over. Other words are
  /// the program's own: rest().
  void Init(int argc, char** argv);
  /// The job of -conf. An InvalidArgument where there was none.
  [[nodiscard]] const Job& job_conf() const;
  [[nodiscard]] bool resume() const { return resume_; }
  [[nodiscard]] bool test() const { return test_; }
  [[nodiscard]] const std::vector<std::string>& rest() const { return rest_; }

  /// For layers with this user_type a T, made of the serialized LayerProto where it has such a constructor, else of
  /// nothing; params_of_job_layer reads how the job wants its parameters.
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

  /// For an updater with this user_type one of Pleiad's rules with its settings,
  void RegisterUpdater(const std::string& user_type, const UpdaterOptions& options) {
    register_job_updater(user_type, options);
  }
  /// or a rule of one's own: rule(update) changes update.value by update.delta, the gradient. Called by several threads
  /// at once, for different runs of values. What it throws on any rank is a RuleError after that step: on all ranks
  /// where one worker group makes each step together, else on that rank, and the others are told that it has left.
  template <class F>
    requires std::is_invocable_v<F, const RuleUpdate<float>&>
  void RegisterUpdater(const std::string& user_type, F rule, const RuleLayout& layout = {}) {
    register_rule(user_type, layout, std::move(rule));
    register_job_updater(user_type, {.rule = user_type});
  }

  /// Trains to the end, or with `resume` on from the last checkpoint of the workspace. Each may follow another.
  JobResult Train(bool resume, const Job& job);
  JobResult Train(const Job& job) { return Train(resume_, job); }
  /// Tests the parameters of the job's checkpoint_path.
  JobResult Test(const Job& job);

 private:
  std::optional<Job> job_;
  bool resume_ = false;
  bool test_ = false;
  std::vector<std::string> rest_;
};

}  // namespace pleiad

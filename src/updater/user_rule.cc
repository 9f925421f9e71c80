#include "updater/user_rule.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/text.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {

thread_local bool in_rule = false;

class UserRule final : public Updater {
 public:
  UserRule(std::string name, const RuleLayout& layout, std::function<void(const RuleUpdate<float>&)> apply_float32,
           std::function<void(const RuleUpdate<double>&)> apply_float64)
      : name_(std::move(name)),
        layout_(layout),
        float32_(std::move(apply_float32)),
        float64_(std::move(apply_float64)) {}

  [[nodiscard]] StateLayout state() const override {
    return {.per_element = layout_.arrays, .per_worker = layout_.worker_arrays, .per_unit = layout_.numbers};
  }
  [[nodiscard]] bool additive() const override { return layout_.additive; }
  void apply(const Update<float>& update) const override { run(float32_, update); }
  void apply(const Update<double>& update) const override { run(float64_, update); }

 private:
  template <class T>
  void run(const std::function<void(const RuleUpdate<T>&)>& rule, const Update<T>& u) const {
    RuleUpdate<T> update{.value = {u.value, u.count},
                         .delta = {u.delta, u.count},
                         .state = {},
                         .numbers = {u.unit, static_cast<std::size_t>(layout_.numbers)},
                         .learning_rate = u.rates.learning_rate,
                         .momentum = u.rates.momentum,
                         .rho = u.rates.rho,
                         .lambda = u.rates.lambda};
    for (int k = 0; k < layout_.arrays + layout_.worker_arrays; ++k) {
      update.state[static_cast<std::size_t>(k)] = {u.state[static_cast<std::size_t>(k)], u.count};
    }
    struct RuleScope {
      RuleScope() { in_rule = true; }
      ~RuleScope() { in_rule = false; }
    } const mark;
    try {
      rule(update);
    } catch (const std::exception& error) {
      throw RuleError(fmt::format("rule \"{}\": {}", name_, error.what()));
    } catch (...) {
      throw RuleError(fmt::format("rule \"{}\" threw an exception that is not a std::exception", name_));
    }
  }

  const std::string name_;
  const RuleLayout layout_;
  const std::function<void(const RuleUpdate<float>&)> float32_;
  const std::function<void(const RuleUpdate<double>&)> float64_;
};

}  // namespace

bool in_user_rule() { return in_rule; }

void register_rule(const std::string& name, const RuleLayout& layout,
                   std::function<void(const RuleUpdate<float>&)> apply_float32,
                   std::function<void(const RuleUpdate<double>&)> apply_float64) {
  const auto refuse = [&](const std::string& what) {
    throw InvalidArgument(fmt::format("[register_rule] \"{}\": {}", name, what));
  };
  if (name.empty() || name.size() > 60 || name.find_first_of("/,= \t\n\"") != std::string::npos) {
    refuse("expected a name of 1 to 60 characters without blanks, quotes, '/', ',' and '='");
  }
  const std::vector<std::string> own = updater_names();
  if (std::ranges::find(own, name) != own.end()) refuse("is the name of a built-in rule");
  for (const int count : {layout.arrays, layout.worker_arrays, layout.numbers}) {
    if (count < 0 || count > 64) refuse(fmt::format("expected 0 or more arrays and numbers; received {}", count));
  }
  if (layout.arrays + layout.worker_arrays > static_cast<int>(kMaxStates)) {
    refuse(fmt::format("expected at most {} arrays; received {} and {} for each worker", kMaxStates, layout.arrays,
                       layout.worker_arrays));
  }
  if (layout.additive && layout.arrays + layout.worker_arrays + layout.numbers > 0) {
    refuse("a rule with state cannot be additive");
  }
  if (!apply_float32 || !apply_float64) refuse("expected a function for each element type; received none");
  add_user_rule(name, std::make_shared<UserRule>(name, layout, std::move(apply_float32), std::move(apply_float64)));
}

}  // namespace pleiad

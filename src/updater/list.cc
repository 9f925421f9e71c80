// The list of Pleiad's update rules. To add a rule, write a file with its factory function and add a line here.
#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "pleiad/error.h"
#include "updater/check.h"
#include "updater/updater.h"
#include "updater/user_rule.h"

namespace pleiad {

using Factory = std::unique_ptr<Updater>(const UpdaterOptions&);
Factory make_adadelta, make_adagrad, make_adam, make_adamax, make_adamw, make_dcasgd, make_ftrl, make_momentum,
    make_nesterov, make_rmsprop, make_sgd, make_sum;

namespace {

struct Flag {
  const char* name;
  bool UpdaterOptions::* field;
};

constexpr Flag kAscend{"ascend", &UpdaterOptions::ascend};
constexpr Flag kPrescaled{"prescaled", &UpdaterOptions::prescaled};
constexpr Flag kDamped{"damped", &UpdaterOptions::damped};
constexpr Flag kRateInVelocity{"rate_in_velocity", &UpdaterOptions::rate_in_velocity};
constexpr Flag kBiasCorrection{"bias_correction", &UpdaterOptions::bias_correction};
constexpr Flag kEpsilonInsideRoot{"epsilon_inside_root", &UpdaterOptions::epsilon_inside_root};
constexpr Flag kPerWorker{"per_worker", &UpdaterOptions::per_worker};
constexpr Flag kAdaptive{"adaptive", &UpdaterOptions::adaptive};
constexpr Flag kFlags[] = {kAscend,         kPrescaled,         kDamped,    kRateInVelocity,
                           kBiasCorrection, kEpsilonInsideRoot, kPerWorker, kAdaptive};

struct Entry {
  std::string name;
  Factory* make;
  std::vector<Flag> flags;  ///< the flags that the rule supports
};

const std::vector<Entry>& entries() {
  static const std::vector<Entry> list = {
      {"adadelta", make_adadelta, {kAscend, kPrescaled}},
      {"adagrad", make_adagrad, {kAscend, kPrescaled, kEpsilonInsideRoot, kPerWorker}},
      {"adam", make_adam, {kAscend, kPrescaled, kBiasCorrection, kEpsilonInsideRoot}},
      {"adamax", make_adamax, {kAscend, kPrescaled, kBiasCorrection}},
      {"adamw", make_adamw, {kAscend, kBiasCorrection, kEpsilonInsideRoot}},
      {"dcasgd", make_dcasgd, {kAscend, kPrescaled, kAdaptive}},
      {"ftrl", make_ftrl, {kPrescaled}},
      {"momentum", make_momentum, {kAscend, kPrescaled, kDamped, kRateInVelocity}},
      {"nesterov", make_nesterov, {kAscend, kPrescaled}},
      {"rmsprop", make_rmsprop, {kAscend, kPrescaled, kEpsilonInsideRoot}},
      {"sgd", make_sgd, {kAscend, kPrescaled}},
      {"sum", make_sum, {}},
  };
  return list;
}

const Entry& find(const std::string& rule) {
  const auto entry = std::ranges::find(entries(), rule, &Entry::name);
  if (entry == entries().end()) {
    std::vector<std::string> known = updater_names();
    for (std::string& name : user_rule_names()) known.push_back(std::move(name));
    throw InvalidArgument(unknown_name("updater", rule, known));
  }
  return *entry;
}

// Holds a user's rule for one table. The registry may replace the rule in the meantime.
class RegisteredRule final : public Updater {
 public:
  explicit RegisteredRule(std::shared_ptr<const Updater> rule) : rule_(std::move(rule)) {}
  [[nodiscard]] StateLayout state() const override { return rule_->state(); }
  [[nodiscard]] bool additive() const override { return rule_->additive(); }
  void apply(const Update<float>& update) const override { rule_->apply(update); }
  void apply(const Update<double>& update) const override { rule_->apply(update); }

 private:
  std::shared_ptr<const Updater> rule_;
};

// Refuses fields that the rule would silently ignore.
void check_fields(const Entry& entry, const UpdaterOptions& options) {
  const UpdaterOptions defaults;
  for (const Flag& flag : kFlags) {
    if (options.*flag.field == defaults.*flag.field) continue;
    if (std::ranges::find(entry.flags, flag.field, &Flag::field) != entry.flags.end()) continue;
    std::vector<std::string> taken;
    taken.reserve(entry.flags.size());
    for (const Flag& other : entry.flags) taken.emplace_back(other.name);
    throw InvalidArgument(fmt::format("updater \"{}\" does not take {}; it takes {}", entry.name, flag.name,
                                      taken.empty() ? "no flag" : join(taken)));
  }
  if (entry.make != make_sum && entry.make != nullptr && !options.prescaled) return;
  const auto refuse = [&](std::string_view field, double value, double usual) {
    if (value == usual) return;
    throw InvalidArgument(fmt::format("updater \"{}\" uses {} and takes no {}; received {}", entry.name,
                                      options.prescaled ? "a prescaled delta" : "the delta", field, value));
  };
  refuse("weight_decay", options.weight_decay, 0);
  refuse("scale", options.scale, 1);
  refuse("clip_low", options.clip_low, 0);
  refuse("clip_high", options.clip_high, 0);
}

}  // namespace

std::vector<std::string> updater_names() {
  std::vector<std::string> names;
  for (const Entry& entry : entries()) names.push_back(entry.name);
  return names;
}

std::unique_ptr<Updater> make_updater(const UpdaterOptions& options, DType dtype) {
  const UpdaterOptions resolved = resolve_dialect(options);
  auto users = find_user_rule(resolved.rule);
  const Entry& entry =
      users != nullptr ? Entry{.name = resolved.rule, .make = nullptr, .flags = {}} : find(resolved.rule);
  if (is_integer(dtype) && entry.make != make_sum) {
    throw InvalidArgument(
        fmt::format("a table of {} takes the updater \"sum\" only; received \"{}\"", name_of(dtype), options.rule));
  }
  check_numbers(resolved);
  check_fields(entry, resolved);
  if (users != nullptr) return std::make_unique<RegisteredRule>(std::move(users));
  return entry.make(resolved);
}

}  // namespace pleiad

#include <map>
#include <mutex>

#include "updater/user_rule.h"

namespace pleiad {

namespace {

struct List {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const Updater>> rules;  // guarded by mutex
};

// Never destroyed: a thread that serves tables at the end of the process may still access it.
List& list() {
  static auto* const one = new List;
  return *one;
}

}  // namespace

void add_user_rule(const std::string& name, std::shared_ptr<const Updater> rule) {
  const std::lock_guard lock(list().mutex);
  list().rules[name] = std::move(rule);
}

std::shared_ptr<const Updater> find_user_rule(const std::string& name) {
  const std::lock_guard lock(list().mutex);
  const auto found = list().rules.find(name);
  return found == list().rules.end() ? nullptr : found->second;
}

std::vector<std::string> user_rule_names() {
  const std::lock_guard lock(list().mutex);
  std::vector<std::string> names;
  for (const auto& [name, rule] : list().rules) names.push_back(name);
  return names;
}

}  // namespace pleiad

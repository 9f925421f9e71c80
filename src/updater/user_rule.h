// User-defined update rules. The list is in libpleiad_base.so, so that a process has one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pleiad/rule.h"
#include "updater/updater.h"

namespace pleiad {

/// Replaces a rule of the same name.
void add_user_rule(const std::string& name, std::shared_ptr<const Updater> rule);
/// Returns null if the name is not registered.
[[nodiscard]] std::shared_ptr<const Updater> find_user_rule(const std::string& name);
[[nodiscard]] std::vector<std::string> user_rule_names();

/// Returns true while this thread runs a user's rule. It then holds a lock and must not call tables.
[[nodiscard]] bool in_user_rule();

}  // namespace pleiad

// The registry of user-defined update rules.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pleiad/rule.h"
#include "updater/updater.h"

namespace pleiad {

/// Returns null if the name is not registered. Exported, because only one library may hold the registry.
[[nodiscard]] PLEIAD_API std::shared_ptr<const Updater> find_user_rule(const std::string& name);
[[nodiscard]] PLEIAD_API std::vector<std::string> user_rule_names();

/// Returns true while this thread runs a user's rule. It then holds a lock and must not call tables.
[[nodiscard]] bool in_user_rule();

}  // namespace pleiad

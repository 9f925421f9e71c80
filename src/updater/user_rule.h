// Rules that users have registered.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pleiad/rule.h"
#include "updater/updater.h"

namespace pleiad {

/// Null where nobody has registered the name. Of the one library that keeps the list.
[[nodiscard]] PLEIAD_API std::shared_ptr<const Updater> find_user_rule(const std::string& name);
[[nodiscard]] PLEIAD_API std::vector<std::string> user_rule_names();

/// True while this thread is inside a user's rule: it holds a lock, so it must not call tables.
[[nodiscard]] bool in_user_rule();

}  // namespace pleiad

// The options of include/pleiad/options.h by name: for the environment, C, the command line and the docs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/option_field.h"
#include "pleiad/options.h"

namespace pleiad {

[[nodiscard]] const std::vector<OptionField<SessionOptions>>& session_fields();
[[nodiscard]] const std::vector<OptionField<TableOptions>>& table_fields();
[[nodiscard]] const std::vector<OptionField<UpdaterOptions>>& updater_fields();

/// Sets one option by name. An unknown name is an InvalidArgument that lists the known ones.
void set_option(SessionOptions& options, std::string_view name, std::string_view value);
/// Table options, and updater options with the prefix "updater." or none.
void set_option(TableOptions& options, std::string_view name, std::string_view value);

/// Throws an InvalidArgument for numbers that no session can have.
void check(const SessionOptions& options);

/// Applies "name=value, name=value"; a name given twice is an InvalidArgument.
void set_options(TableOptions& options, std::string_view list);
void set_options(SessionOptions& options, std::string_view list);

/// What the environment says: PLEIAD_TIMEOUT for `timeout`, and so on.
void read_environment(SessionOptions& options);
/// A line for each variable of the environment that begins with PLEIAD_ and is not known, with the nearest name.
[[nodiscard]] std::vector<std::string> unknown_variables();

/// docs/parameters.md.
[[nodiscard]] std::string options_markdown();

}  // namespace pleiad

// The options of include/pleiad/options.h by name, for the environment, the C API, the command line and the docs.
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

/// Sets one option by name. Throws InvalidArgument with the known names if the name is unknown.
void set_option(SessionOptions& options, std::string_view name, std::string_view value);
/// Accepts table options, and updater options with or without the prefix "updater.".
void set_option(TableOptions& options, std::string_view name, std::string_view value);

/// Throws InvalidArgument if a value is out of range.
void check(const SessionOptions& options);

/// Applies "name=value, name=value". Throws InvalidArgument if a name is given twice.
void set_options(TableOptions& options, std::string_view list);
void set_options(SessionOptions& options, std::string_view list);

/// Reads options from the environment: PLEIAD_TIMEOUT for `timeout`, and so on.
void read_environment(SessionOptions& options);
/// Returns a line for each unknown environment variable that begins with PLEIAD_, with the nearest known name.
[[nodiscard]] std::vector<std::string> unknown_variables();

/// Returns the content of docs/parameters.md.
[[nodiscard]] std::string options_markdown();

}  // namespace pleiad

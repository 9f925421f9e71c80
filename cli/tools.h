// The commands that need the training engine and the data formats. They form a separate program, pleiad-tools, which is
// installed beside `pleiad`.
#pragma once

#include <string>
#include <vector>

namespace pleiad::cli {

/// Each function takes the arguments after the command's name and returns the exit code. Exceptions of the command's
/// work are passed on.
int run_convert(const std::vector<std::string>& words);
int run_explain(const std::vector<std::string>& words);
int run_export(const std::vector<std::string>& words);
int run_import(const std::vector<std::string>& words);
int run_run(const std::vector<std::string>& words);

}  // namespace pleiad::cli

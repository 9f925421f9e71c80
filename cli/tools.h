// The commands that load the training engine and the data formats. They share one program, pleiad-tools, beside
// `pleiad`.
#pragma once

#include <string>
#include <vector>

namespace pleiad::cli {

/// Each takes the arguments after its name and returns the exit code. It throws what its work throws.
int run_convert(const std::vector<std::string>& words);
int run_explain(const std::vector<std::string>& words);
int run_export(const std::vector<std::string>& words);
int run_import(const std::vector<std::string>& words);
int run_run(const std::vector<std::string>& words);

}  // namespace pleiad::cli

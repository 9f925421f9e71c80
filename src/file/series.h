// The saved sets of a run, one folder per step (FOLDER/step-00000500), of which the most recent are kept.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace pleiad {

/// Creates a folder and its missing parents and flushes them to disk. Throws FileError with the path.
void make_folder(const std::filesystem::path& folder);

[[nodiscard]] std::filesystem::path step_folder(const std::filesystem::path& run, std::int64_t step);
/// Returns the steps of a run in rising order: only those with a complete set, or all that were started.
[[nodiscard]] std::vector<std::int64_t> steps_in(const std::filesystem::path& run, bool whole);
/// Removes incomplete sets. No process may be writing one.
void remove_unfinished(const std::filesystem::path& run);
/// Keeps the most recent `keep` complete sets and the one just saved, and removes the others, including incomplete
/// ones. Does nothing if keep is 0.
void prune_steps(const std::filesystem::path& run, int keep, std::int64_t just_saved);

}  // namespace pleiad

// The saved sets of a run, a folder for each step: FOLDER/step-00000500. The last few stay.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace pleiad {

/// Makes a folder and those above it, where they are not there, and brings them to the disk. A FileError that names it.
void make_folder(const std::filesystem::path& folder);

[[nodiscard]] std::filesystem::path step_folder(const std::filesystem::path& run, std::int64_t step);
/// The steps of a run, rising: of sets that are there in whole, or of all that were begun.
[[nodiscard]] std::vector<std::int64_t> steps_in(const std::filesystem::path& run, bool whole);
/// Removes what was begun and never came to its end. Nobody may be writing.
void remove_unfinished(const std::filesystem::path& run);
/// Leaves the last `keep` whole sets and the one just saved; removes the others, and what never came to its end.
/// Nothing where keep is 0.
void prune_steps(const std::filesystem::path& run, int keep, std::int64_t just_saved);

}  // namespace pleiad

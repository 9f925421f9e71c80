#include "file/series.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "file/atomic.h"
#include "file/manifest.h"
#include "pleiad/error.h"

namespace pleiad {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kStep = "step-";

}  // namespace

void make_folder(const fs::path& folder) {
  std::error_code problem;
  std::vector<fs::path> missing;
  fs::path existing = folder;
  for (; !existing.empty() && !fs::exists(existing, problem); existing = existing.parent_path()) {
    missing.push_back(existing);
  }
  // A file in a folder survives a power loss only if the folder does, so each new folder is synced into the one above
  // it before the next is made. If a process was killed in between, the deepest existing folder may be the one that it
  // made. A folder without read permission cannot be flushed by its user.
  const auto flush = [](const fs::path& made) {
    if (sync_folder(folder_of(made)) || errno == EACCES) return;
    throw FileError(fmt::format("{}: cannot be flushed to disk: {}", folder_of(made).string(), std::strerror(errno)));
  };
  if (fs::is_directory(existing, problem)) flush(existing);
  while (!missing.empty()) {
    fs::create_directory(missing.back(), problem);
    if (problem) throw FileError(fmt::format("{}: cannot be created: {}", folder.string(), problem.message()));
    flush(missing.back());
    missing.pop_back();
  }
  if (!fs::is_directory(folder)) throw FileError(fmt::format("{}: is not a folder", folder.string()));
}

fs::path step_folder(const fs::path& run, std::int64_t step) { return run / fmt::format("{}{:08}", kStep, step); }

std::vector<std::int64_t> steps_in(const fs::path& run, bool whole) {
  std::vector<std::int64_t> steps;
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator(run, absent)) {
    const std::string name = entry.path().filename().string();
    std::int64_t step = 0;
    if (!name.starts_with(kStep)) continue;
    const auto [end, problem] = std::from_chars(name.data() + kStep.size(), name.data() + name.size(), step);
    if (problem != std::errc() || end != name.data() + name.size()) continue;
    if (!whole || fs::exists(entry.path() / Manifest::kFile, absent)) steps.push_back(step);
  }
  std::ranges::sort(steps);
  return steps;
}

void remove_unfinished(const fs::path& run) {
  const std::vector<std::int64_t> whole = steps_in(run, true);
  std::error_code ignored;
  for (const std::int64_t step : steps_in(run, false)) {
    if (std::ranges::find(whole, step) == whole.end()) fs::remove_all(step_folder(run, step), ignored);
  }
}

void prune_steps(const fs::path& run, int keep, std::int64_t just_saved) {
  if (keep <= 0) return;
  // The new set must be on disk before an old one is removed, and it exists only once the run's folder lists it.
  if (!sync_folder(run)) {
    throw FileError(fmt::format("{}: cannot be flushed to disk: {}", run.string(), std::strerror(errno)));
  }
  std::vector<std::int64_t> stay = steps_in(run, true);
  if (stay.size() > static_cast<std::size_t>(keep)) stay.erase(stay.begin(), stay.end() - keep);
  stay.push_back(just_saved);
  std::error_code ignored;
  for (const std::int64_t step : steps_in(run, false)) {
    if (std::ranges::find(stay, step) != stay.end()) continue;
    const fs::path path = step_folder(run, step);
    fs::remove(path / Manifest::kFile, ignored);  // first, so that the rest is no longer a set
    fs::remove_all(path, ignored);
  }
}

}  // namespace pleiad

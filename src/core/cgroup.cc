#include "core/cgroup.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace pleiad {

namespace fs = std::filesystem;

namespace {

// cgroup version 1 writes "no limit" as a number near 2^63.
constexpr double kNoLimit = 4.6e18;

// The file names of one cgroup version.
struct GroupFiles {
  const char* memory_limit;
  const char* memory_used;
  const char* memory_given_back;  // the line of memory.stat with the reclaimable memory
};
constexpr GroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
constexpr GroupFiles kVersion2{"memory.max", "memory.current", "inactive_file"};

struct Group {
  fs::path folder;
  bool version2 = false;
};

std::optional<double> number_in(const fs::path& path) {
  std::ifstream file(path);
  double value = 0;
  if (file >> value) return value;
  return std::nullopt;  // "max", or the file does not exist
}

double stat_line(const fs::path& path, std::string_view name) {
  std::ifstream file(path);
  std::string key;
  for (double value = 0; file >> key >> value;) {
    if (key == name) return value;
  }
  return 0;
}

bool has(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    if (list.substr(0, comma) == word) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

// Returns the path of this process's group: in version 2, or in version 1 with this controller.
std::optional<std::string> path_of_group(const fs::path& root, bool version2, std::string_view controller) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // number:controllers:path
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
    if (version2 ? line.starts_with("0:") && controllers.empty() : has(controllers, controller)) {
      return line.substr(second + 1);
    }
  }
  return std::nullopt;
}

// Returns this process's group and its ancestors, in each hierarchy that may limit `controller`.
std::vector<Group> groups_with(const fs::path& root, std::string_view controller) {
  std::vector<Group> groups;
  std::ifstream mounts(root / "proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    // The fields are: id parent device root mount-point options [optional...] - type source super-options
    std::istringstream fields(line);
    std::string skipped;
    std::string top;
    std::string point;
    std::string type;
    std::string super;
    fields >> skipped >> skipped >> skipped >> top >> point >> skipped;
    while (fields >> skipped && skipped != "-") continue;
    fields >> type >> skipped >> super;
    const bool version2 = type == "cgroup2";
    if (!version2 && (type != "cgroup" || !has(super, controller))) continue;
    const std::optional<std::string> path = path_of_group(root, version2, controller);
    if (!path) continue;
    const fs::path mounted = root / fs::path(point).relative_path();
    // In a container the mount may start at the container's group, or this process's group may be outside of it.
    fs::path below = fs::path(*path).lexically_relative(top);
    if (below.empty() || *below.begin() == "..") below = ".";
    for (fs::path folder = (mounted / below).lexically_normal();; folder = folder.parent_path()) {
      if (!folder.has_filename()) continue;  // the trailing slash of a normalised path
      groups.push_back({.folder = folder, .version2 = version2});
      if (folder == mounted.lexically_normal() || folder == folder.root_path()) break;
    }
  }
  return groups;
}

}  // namespace

std::optional<std::uint64_t> cgroup_memory_left(const fs::path& root) {
  std::optional<std::uint64_t> least;
  for (const Group& group : groups_with(root, "memory")) {
    const GroupFiles& files = group.version2 ? kVersion2 : kVersion1;
    const std::optional<double> limit = number_in(group.folder / files.memory_limit);
    if (!limit || *limit >= kNoLimit) continue;
    const double used = number_in(group.folder / files.memory_used).value_or(0) -
                        stat_line(group.folder / "memory.stat", files.memory_given_back);
    const auto left = static_cast<std::uint64_t>(std::clamp(*limit - used, 0.0, *limit));
    least = std::min(least.value_or(left), left);
  }
  return least;
}

std::optional<double> cgroup_cores(const fs::path& root) {
  std::optional<double> least;
  for (const Group& group : groups_with(root, "cpu")) {
    double quota = -1;
    double period = 0;
    if (group.version2) {
      std::ifstream file(group.folder / "cpu.max");
      if (!(file >> quota >> period)) continue;  // "max 100000"
    } else {
      quota = number_in(group.folder / "cpu.cfs_quota_us").value_or(-1);  // -1: no quota
      period = number_in(group.folder / "cpu.cfs_period_us").value_or(0);
    }
    if (quota <= 0 || period <= 0) continue;
    least = std::min(least.value_or(quota / period), quota / period);
  }
  return least;
}

}  // namespace pleiad

// Reads the limits that control groups (cgroups, version 1 and 2) set for this process: those of its own group and of
// all ancestors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace pleiad {

/// Returns the bytes that the tightest group still allows, or nullopt if no group has a limit. Reclaimable page cache
/// counts as free. `root` is the folder that contains /proc and /sys/fs/cgroup.
[[nodiscard]] std::optional<std::uint64_t> cgroup_memory_left(const std::filesystem::path& root = "/");

/// Returns the processors that the tightest group allows (quota divided by period), or nullopt if no group has a quota.
[[nodiscard]] std::optional<double> cgroup_cores(const std::filesystem::path& root = "/");

}  // namespace pleiad

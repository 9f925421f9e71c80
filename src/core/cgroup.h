// These functions read the limits that control groups (cgroups) set for this process: its own group and every group
// above it, of version 1 and 2.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace pleiad {

/// The bytes that the tightest group still allows; nothing if no group has a limit. What the page cache could give back
/// counts as free. `root` is the folder that /proc and /sys/fs/cgroup are under.
[[nodiscard]] std::optional<std::uint64_t> cgroup_memory_left(const std::filesystem::path& root = "/");

/// The processors that the tightest group allows, as a quota divided by its period; nothing if no group has a quota.
[[nodiscard]] std::optional<double> cgroup_cores(const std::filesystem::path& root = "/");

}  // namespace pleiad

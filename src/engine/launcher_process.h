// Finds the process that started the ranks of a job.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace pleiad {

struct LauncherProcess {
  pid_t pid = 0;
  std::uint64_t started = 0;  ///< in clock ticks since boot; pid and start time identify a process uniquely
  int generations = 0;        ///< 1: the parent, 2: its parent, and so on
};

/// Returns the nearest ancestor that was started without `variable` in its environment. This is the launcher if it sets
/// that variable for each of its processes; scripts between the launcher and this process are skipped.
[[nodiscard]] LauncherProcess launcher_process(const char* variable);

/// Returns false for a variable that this process has set itself.
[[nodiscard]] bool this_process_was_started_with(const char* variable);

/// True while `launcher` may start more processes: a thread of it is not asleep, or a child has not executed its
/// program yet, which then lacks `variable`.
[[nodiscard]] bool may_start_processes(const LauncherProcess& launcher, const std::string& variable);

/// Returns the initial values of `variable` in all processes of this host whose environment contains `setting`
/// ("NAME=value"). Skips processes that have ended and those of other users.
[[nodiscard]] std::vector<std::string> values_of_processes(const std::string& setting, const std::string& variable);

}  // namespace pleiad

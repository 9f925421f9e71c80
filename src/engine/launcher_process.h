// The process that started the ranks of a job.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace pleiad {

struct LauncherProcess {
  pid_t pid = 0;
  std::uint64_t started = 0;  ///< in clock ticks since boot; with the pid it names a process once and for all
  int generations = 0;        ///< 1: the parent, 2: its parent, …
};

/// The nearest ancestor that was started without `variable` in its environment: the launcher, where it sets that
/// variable for each of its processes. Scripts between the launcher and this process are passed over.
[[nodiscard]] LauncherProcess launcher_process(const char* variable);

/// False for a variable that this process has set itself.
[[nodiscard]] bool this_process_was_started_with(const char* variable);

/// True while `launcher` may start more processes: a thread of it is not asleep, or a child has not executed its program
/// yet, which then lacks `variable`.
[[nodiscard]] bool may_start_processes(const LauncherProcess& launcher, const std::string& variable);

/// Returns the values that `variable` had at the start of each process of this host whose environment has `setting`
/// ("NAME=value"). Processes that have ended, and those of other users, are left out.
[[nodiscard]] std::vector<std::string> values_of_processes(const std::string& setting, const std::string& variable);

}  // namespace pleiad

// Facts about this process.
#pragma once

#include <cstdint>
#include <string>

namespace pleiad {

/// Grows by one in every forked child. What remembers it at its start can tell that it woke up in a child.
[[nodiscard]] std::uint64_t fork_generation();

/// Nanoseconds of a clock that never goes back; comparable between the processes of one host.
[[nodiscard]] std::int64_t now_ns();

/// Nanoseconds of processor time that a process of this host has used, all its threads together; 0 where unknown.
[[nodiscard]] std::int64_t cpu_ns(int pid);

/// The same of the calling thread alone.
[[nodiscard]] std::int64_t thread_cpu_ns();

/// How many threads a process of this host has; 0 where unknown.
[[nodiscard]] int thread_count(int pid);

/// From now on the calling thread gets a core only where others leave one: for work in the background.
void yield_to_others();

[[nodiscard]] std::string host_name();

/// Cores this process may run on (affinity, and the cgroup's quota rounded up), at least one.
[[nodiscard]] int usable_cores();

/// Bytes that can still be allocated before the kernel or the cgroup refuses.
[[nodiscard]] std::uint64_t available_memory();
/// What the machine has, the same for all its processes.
[[nodiscard]] std::uint64_t total_memory();

}  // namespace pleiad

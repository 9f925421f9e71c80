// Information about this process and its machine.
#pragma once

#include <cstdint>
#include <string>

namespace pleiad {

/// Returns a counter that grows by one in every forked child. Code that stores it at its start can detect that it runs
/// in a child.
[[nodiscard]] std::uint64_t fork_generation();

/// Returns nanoseconds of a monotonic clock that all processes of the host share.
[[nodiscard]] std::int64_t now_ns();

/// Returns the nanoseconds of processor time that all threads of a process have used, or 0 if unknown.
[[nodiscard]] std::int64_t cpu_ns(int pid);

/// Returns the nanoseconds of processor time that the calling thread has used.
[[nodiscard]] std::int64_t thread_cpu_ns();

/// Returns the number of threads of a process of this host, or 0 if unknown.
[[nodiscard]] int thread_count(int pid);

/// Lowers the calling thread's priority for background work: it runs only when other threads leave a core idle.
void lower_thread_priority();

[[nodiscard]] std::string host_name();

/// Returns the number of cores that this process may use, at least 1: the affinity mask, limited by the cgroup's quota
/// rounded up.
[[nodiscard]] int usable_cores();

/// Returns the bytes that can still be allocated before the kernel or the cgroup refuses.
[[nodiscard]] std::uint64_t available_memory();
/// Returns the memory of the machine, which is the same for all its processes.
[[nodiscard]] std::uint64_t total_memory();

}  // namespace pleiad

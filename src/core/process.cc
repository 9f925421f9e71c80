#include "core/process.h"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

#include "core/cgroup.h"

namespace pleiad {

namespace {

std::atomic<std::uint64_t> generation{0};

// Only this counter must be updated during the fork itself.
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] { generation.fetch_add(1); });

}  // namespace

std::uint64_t fork_generation() { return generation.load(std::memory_order_relaxed); }

std::int64_t now_ns() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

std::int64_t cpu_ns(int pid) {
  clockid_t clock = 0;
  timespec time{};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0;
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

std::int64_t thread_cpu_ns() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

int thread_count(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_ends = text.rfind(')');  // the name may contain any character
  if (name_ends == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_ends + 1));
  std::string field;
  for (int i = 3; i < 20 && fields >> field; ++i) continue;
  int threads = 0;
  return fields >> threads ? threads : 0;
}

std::string host_name() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0) return "unknown-host";
  return name;
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cores =
      sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  if (const std::optional<double> quota = cgroup_cores()) cores = std::min(cores, static_cast<int>(std::ceil(*quota)));
  return std::max(cores, 1);
}

void lower_thread_priority() {
  // On Linux the priority belongs to the thread. If the call is refused, the work runs at normal priority.
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 15);
}

std::uint64_t total_memory() {
  return static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

std::uint64_t available_memory() {
  double available = std::numeric_limits<double>::max();
  std::ifstream info("/proc/meminfo");
  std::string key;
  double kilobytes = 0;
  std::string unit;
  while (info >> key >> kilobytes) {
    std::getline(info, unit);
    if (key == "MemAvailable:") available = kilobytes * 1024;
  }
  if (const std::optional<std::uint64_t> left = cgroup_memory_left()) {
    available = std::min(available, static_cast<double>(*left));
  }
  return available <= 0 ? 0 : static_cast<std::uint64_t>(std::min(available, 9e18));
}

}  // namespace pleiad

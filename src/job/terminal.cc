#include "job/terminal.h"

#include <fmt/format.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace pleiad {
namespace {

constexpr int kAncestors = 8;  // a launcher, its daemon, wrappers and shells

std::string command_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/comm", pid));
  std::string name;
  std::getline(file, name);
  return name;
}

pid_t parent_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("PPid:")) return static_cast<pid_t>(std::atoi(line.c_str() + 5));
  }
  return 0;
}

bool writes_to_terminal(pid_t pid) {
  std::error_code problem;
  const std::string target = std::filesystem::read_symlink(fmt::format("/proc/{}/fd/2", pid), problem).string();
  return target.starts_with("/dev/pts/") || target.starts_with("/dev/tty") || target == "/dev/console";
}

}  // namespace

bool on_terminal() {
  if (isatty(STDERR_FILENO) != 0) return true;
  static constexpr std::array kVariables = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK",   "PMI_RANK",
                                            "SLURM_PROCID",         "PLEIAD_RANK", "RANK"};
  if (std::ranges::none_of(kVariables, [](const char* name) { return std::getenv(name) != nullptr; })) return false;
  static constexpr std::array kLaunchers = {"mpirun", "mpiexec", "orterun", "prterun",
                                            "prte",   "srun",    "pleiad",  "torchrun"};
  pid_t pid = getppid();
  for (int i = 0; i < kAncestors && pid > 1; ++i, pid = parent_of(pid)) {
    const std::string name = command_of(pid);
    // Debian appends a suffix to the names: mpirun.openmpi.
    const bool launcher = std::ranges::any_of(kLaunchers, [&](const char* known) { return name.starts_with(known); });
    if (launcher && writes_to_terminal(pid)) return true;
  }
  return false;
}

}  // namespace pleiad

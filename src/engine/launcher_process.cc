#include "engine/launcher_process.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <system_error>

#include <fmt/format.h>

namespace pleiad {

namespace {

/// Returns the initial environment of a process, each setting between two zero bytes. The result is empty if it cannot
/// be read, because the process belongs to another user such as Slurm.
std::string environment_of(const std::string& pid) {
  std::ifstream file(fmt::format("/proc/{}/environ", pid), std::ios::binary);
  return std::string(1, '\0') + std::string(std::istreambuf_iterator<char>(file), {});
}

bool started_with(pid_t pid, const std::string& variable) {
  return environment_of(std::to_string(pid)).find(std::string(1, '\0') + variable + "=") != std::string::npos;
}

struct Stat {
  char state = 0;
  pid_t parent = 0;
  std::uint64_t started = 0;
};

/// The state of a process ("PID") or of a thread ("PID/task/TID"); all fields are zero if it does not exist.
Stat stat_of(const std::string& process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  const std::string text(std::istreambuf_iterator<char>(file), {});
  // The name in parentheses may contain any character. It is followed by the state, the parent, and the start time as
  // the 20th field.
  const std::size_t end = text.rfind(')');
  if (end == std::string::npos) return {};
  std::istringstream fields(text.substr(end + 1));
  Stat stat;
  std::string skipped;
  fields >> stat.state >> stat.parent;
  for (int field = 3; field < 20; ++field) fields >> skipped;
  fields >> stat.started;
  return stat;
}

Stat stat_of(pid_t pid) { return stat_of(std::to_string(pid)); }

/// The numbers among the names in a folder of /proc: its processes, or a process's threads.
std::vector<std::string> numbers_in(const std::string& folder) {
  std::vector<std::string> numbers;
  std::error_code problem;
  for (const auto& entry : std::filesystem::directory_iterator(folder, problem)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") == std::string::npos) numbers.push_back(name);
  }
  return numbers;
}

}  // namespace

bool this_process_was_started_with(const char* variable) { return started_with(getpid(), variable); }

std::vector<std::string> values_of_processes(const std::string& setting, const std::string& variable) {
  const std::string zero(1, '\0');
  std::vector<std::string> values;
  for (const std::string& pid : numbers_in("/proc")) {
    const std::string text = environment_of(pid);
    if (text.find(zero + setting + zero) == std::string::npos) continue;
    const std::size_t found = text.find(zero + variable + "=");
    if (found == std::string::npos) continue;
    const std::size_t begin = found + variable.size() + 2;
    values.push_back(text.substr(begin, text.find('\0', begin) - begin));
  }
  return values;
}

bool may_start_processes(const LauncherProcess& launcher, const std::string& variable) {
  const std::string pid = std::to_string(launcher.pid);
  if (stat_of(pid).started != launcher.started) return false;  // it has ended
  for (const std::string& thread : numbers_in(fmt::format("/proc/{}/task", pid))) {
    const char state = stat_of(fmt::format("{}/task/{}", pid, thread)).state;
    if (state != 'S' && state != 0) return true;
  }
  for (const std::string& child : numbers_in("/proc")) {
    const Stat stat = stat_of(child);
    const bool ended = stat.state == 'Z' || stat.state == 'X';
    if (stat.parent == launcher.pid && !ended && !started_with(std::stoi(child), variable)) return true;
  }
  return false;
}

LauncherProcess launcher_process(const char* variable) {
  LauncherProcess found{.pid = getppid(), .started = 0, .generations = 1};
  while (found.pid > 1 && started_with(found.pid, variable)) {
    found.pid = stat_of(found.pid).parent;
    ++found.generations;
  }
  if (found.pid > 0) found.started = stat_of(found.pid).started;
  return found;
}

}  // namespace pleiad

#include "local_ranks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <stdexcept>
#include <string_view>

extern char** environ;

namespace pleiad::cli {

namespace {

std::string new_key() {
  std::random_device random;
  std::string key;
  for (int word = 0; word < 4; ++word) key += fmt::format("{:08x}", static_cast<std::uint32_t>(random()));
  return key;
}

/// Removes the variables of other launchers: the ranks of this job do not belong to them.
void forget_other_launchers() {
  static constexpr std::string_view kFamilies[] = {"PMIX_", "PMI_", "OMPI_COMM_WORLD_", "TORCHELASTIC_"};
  static constexpr std::string_view kNames[] = {
      "RANK",          "WORLD_SIZE",           "LOCAL_RANK",           "LOCAL_WORLD_SIZE",
      "MASTER_ADDR",   "MASTER_PORT",          "GROUP_RANK",           "GROUP_WORLD_SIZE",
      "ROLE_RANK",     "ROLE_WORLD_SIZE",      "SLURM_STEP_ID",        "SLURM_PROCID",
      "SLURM_LOCALID", "SLURM_SRUN_COMM_PORT", "SLURM_STEP_NUM_TASKS", "PLEIAD_RANK_PROCESS"};
  std::vector<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    const bool other =
        std::ranges::find(kNames, name) != std::end(kNames) ||
        std::ranges::any_of(kFamilies, [&](std::string_view family) { return name.starts_with(family); });
    if (other) names.emplace_back(name);
  }
  for (const std::string& name : names) unsetenv(name.c_str());
}

/// Returns the cores that this process may use, each as the set of its hardware threads.
std::vector<cpu_set_t> usable_core_sets() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  std::map<std::string, cpu_set_t> cores;
  std::vector<std::string> order;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    std::string siblings;
    std::ifstream(fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu)) >> siblings;
    if (siblings.empty()) siblings = std::to_string(cpu);
    const auto [at, fresh] = cores.try_emplace(siblings);
    if (fresh) {
      CPU_ZERO(&at->second);
      order.push_back(siblings);
    }
    CPU_SET(cpu, &at->second);
  }
  std::vector<cpu_set_t> sets;
  for (const std::string& core : order) sets.push_back(cores[core]);
  return sets;
}

void set_number(const char* name, int value) { setenv(name, std::to_string(value).c_str(), 1); }

}  // namespace

void LocalRanks::start(const LaunchOptions& options, const sigset_t& mask) {
  std::vector<std::string> command = {std::filesystem::read_symlink("/proc/self/exe"), "rank", "--grace",
                                      fmt::format("{}", options.grace), "--"};
  command.insert(command.end(), options.command.begin(), options.command.end());
  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);

  const std::vector<cpu_set_t> cores = options.bind == "core" ? usable_core_sets() : std::vector<cpu_set_t>();
  if (options.bind == "core" && static_cast<std::size_t>(options.ranks) > cores.size()) {
    throw std::runtime_error(
        fmt::format("--bind core needs a core for each rank; {} ranks, {} cores", options.ranks, cores.size()));
  }
  forget_other_launchers();
  setenv("PLEIAD_LAUNCH_KEY", new_key().c_str(), 1);
  // Scripts written for mpirun read these.
  for (const char* name : {"PLEIAD_LAUNCH_SIZE", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"}) {
    set_number(name, options.ranks);
  }
  const pid_t self = getpid();
  for (int rank = 0; rank < options.ranks; ++rank) {
    for (const char* name : {"PLEIAD_LAUNCH_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"}) {
      set_number(name, rank);
    }
    const Streams::Ends ends = streams_.open(rank, options.tag_output);
    const pid_t pid = fork();
    if (pid < 0) {
      const std::string why = std::strerror(errno);
      signal_all(SIGKILL);
      throw std::runtime_error(fmt::format("cannot fork: {}", why));
    }
    if (pid == 0) {
      setpgid(0, 0);
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      ends.use();
      if (!cores.empty()) sched_setaffinity(0, sizeof(cpu_set_t), &cores[static_cast<std::size_t>(rank)]);
      sigprocmask(SIG_SETMASK, &mask, nullptr);
      if (getppid() == self) execv(words[0], words.data());
      _exit(127);
    }
    setpgid(pid, pid);  // in the parent too, so that a signal cannot arrive too early
    ends.close_all();
    wrappers_.push_back(pid);
  }
}

void LocalRanks::signal_all(int signal) const {
  for (const pid_t pid : wrappers_) {
    if (pid != 0) kill(-pid, signal);
  }
}

bool LocalRanks::take_end(pid_t pid, int status) {
  const auto at = std::ranges::find(wrappers_, pid);
  if (at == wrappers_.end()) return false;
  *at = 0;
  if (status_ == 0) status_ = status;
  return true;
}

void end_descendants() {
  using Clock = std::chrono::steady_clock;
  const auto kill_at = Clock::now() + std::chrono::seconds(2);
  bool asked = false;
  for (;;) {
    while (waitpid(-1, nullptr, WNOHANG) > 0) continue;
    std::ifstream list(fmt::format("/proc/self/task/{}/children", getpid()));
    std::vector<pid_t> left;
    for (pid_t pid = 0; list >> pid;) left.push_back(pid);
    if (left.empty()) return;
    const bool impatient = Clock::now() >= kill_at;
    for (const pid_t pid : left) {
      if (impatient || !asked) kill(pid, impatient ? SIGKILL : SIGTERM);
    }
    asked = true;
    usleep(10000);
  }
}

bool LocalRanks::running() const {
  return std::ranges::any_of(wrappers_, [](pid_t pid) { return pid != 0; });
}

}  // namespace pleiad::cli

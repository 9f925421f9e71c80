#include "mpirun.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <sstream>
#include <stdexcept>

#include "rank.h"

namespace pleiad::cli {

namespace {

bool is_program(const std::string& path) {
  struct stat facts{};
  return stat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode) && access(path.c_str(), X_OK) == 0;
}

/// Returns true if a batch system gives mpirun its hosts, and with them the number of ranks that each can take.
bool has_allocation() {
  for (const char* name : {"SLURM_JOB_ID", "PBS_NODEFILE", "LSB_DJOB_HOSTFILE", "PE_HOSTFILE"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

/// Returns true in a Slurm job's own script if all its tasks are on this host. The shell of salloc may be on another
/// one.
bool slurm_gave_this_host_alone() {
  const char* nodes = std::getenv("SLURM_JOB_NUM_NODES");
  return nodes != nullptr && std::string(nodes) == "1" && std::getenv("SLURMD_NODENAME") != nullptr;
}

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

}  // namespace

bool needs_mpirun(const LaunchOptions& options) {
  if (options.mpi || !options.hostfile.empty() || is_set("PLEIAD_SPLIT_HOSTS") || is_set("PLEIAD_SHARED_MEMORY")) {
    return true;
  }
  return has_allocation() && !slurm_gave_this_host_alone();
}

std::optional<std::string> find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return is_program(name) ? std::optional(name) : std::nullopt;
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    if (is_program(candidate)) return candidate;
  }
  return std::nullopt;
}

std::string find_mpirun() {
  if (const char* chosen = std::getenv("PLEIAD_MPIRUN")) {
    if (const auto found = find_program(chosen)) return *found;
    throw std::runtime_error(fmt::format("PLEIAD_MPIRUN is \"{}\", which is not a program", chosen));
  }
  for (const char* name : {"mpirun.openmpi", "mpirun"}) {
    if (const auto found = find_program(name)) return *found;
  }
  throw std::runtime_error("mpirun is not on the PATH; it comes with Open MPI (Debian: apt-get install openmpi-bin)");
}

std::string version_of(const std::string& mpirun) {
  const std::string command = fmt::format("'{}' --version 2>/dev/null", mpirun);
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "re"), pclose);
  char line[256] = "";
  if (!pipe || std::fgets(line, sizeof line, pipe.get()) == nullptr) return "";
  std::string version = line;
  while (std::fgets(line, sizeof line, pipe.get()) != nullptr) continue;
  while (!version.empty() && version.back() == '\n') version.pop_back();
  return version;
}

std::vector<std::string> mpirun_command(const LaunchOptions& options, const std::string& mpirun) {
  const bool one_host = options.hostfile.empty() && !has_allocation();
  std::vector<std::string> words = {mpirun, "-n", std::to_string(options.ranks)};
  const auto add = [&words](std::initializer_list<std::string> more) { words.insert(words.end(), more); };
  if (geteuid() == 0) add({"--allow-run-as-root"});
  // With hosts from a batch system or a hostfile, mpirun accepts at most the given number of ranks.
  if (one_host) add({"--oversubscribe"});
  // On one host, ranks need no TCP ports, which Open MPI would open to the whole network.
  if (one_host && !is_set("OMPI_MCA_btl")) add({"--mca", "btl", "self,vader"});
  // On one host, the wrappers report what mpirun's long banners would; elsewhere its messages are needed.
  if (one_host && !options.verbose) add({"--quiet"});
  if (!options.hostfile.empty()) add({"--hostfile", options.hostfile});
  if (options.tag_output) add({"--tag-output"});
  if (is_set("PLEIAD_TERMINAL")) add({"-x", "PLEIAD_TERMINAL"});
  add({"--bind-to", options.bind, "--stdin", "0"});
  add({"--mca", "ess_base_forward_signals", fmt::format("SIG{}", sigabbrev_np(kStopSignal))});
  add({std::filesystem::read_symlink("/proc/self/exe"), "rank", "--grace", fmt::format("{}", options.grace), "--"});
  words.insert(words.end(), options.command.begin(), options.command.end());
  return words;
}

}  // namespace pleiad::cli

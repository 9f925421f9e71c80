#include "engine/launcher.h"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "core/process.h"
#include "engine/launcher_process.h"

namespace pleiad {

namespace {

constexpr const char* kMark = "PLEIAD_RANK_PROCESS";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_set(const char* name) { return !variable(name).empty(); }

/// The number that `text` is, or -1.
int number_in(const std::string& text) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : -1;
}

int count(const char* name) { return number_in(variable(name)); }

// What MPI launchers and Slurm say about their job. PMIx names the job for both Open MPI's mpirun and srun --mpi=pmix;
// a Slurm step has its own number too.
std::string mpi_job() {
  return variable("PMIX_NAMESPACE") + "/" + variable("SLURM_JOB_ID") + "." + variable("SLURM_STEP_ID") + "/" +
         variable("PMI_ID");
}

/// "NAME=value NAME=value" of the variables that are set.
std::string shown(std::initializer_list<const char*> names) {
  std::string text;
  for (const char* name : names) {
    if (is_set(name)) text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, variable(name));
  }
  return text;
}

Launch impossible(std::string by, int size, const std::string& variables, std::string_view why) {
  Launch launch;
  launch.meeting = Meeting::impossible;
  launch.by = std::move(by);
  launch.size = size;
  launch.problem = fmt::format(
      "{} has started {} processes{} ({}). Ways that work: on one host `pleiad launch -n {}`; on one or several hosts "
      "`mpirun -n {}` or `pleiad launch -n {} --hostfile FILE`; engine = solo (PLEIAD_ENGINE=solo) makes each process "
      "a world of one",
      launch.by, size, why, variables, size, size, size);
  return launch;
}

// The job's name of processes that meet on this host: the launcher's variables, and the process that started all of
// them, so that two jobs with the same variables do not meet.
Launch local(std::string by, int size, int rank, const char* marker, const std::string& variables) {
  const LauncherProcess process = launcher_process(marker);
  return {.meeting = Meeting::local,
          .by = by,
          .size = size,
          .rank = rank,
          .job = fmt::format("{} {} {} {} {}", by, variables, size, process.pid, process.started),
          .problem = ""};
}

// An arrangement that the variables describe, with the variable by which the launcher is recognised.
struct Candidate {
  const char* marker = nullptr;
  Launch (*read)() = nullptr;
};

Launch read_pleiad() {
  const int size = count("PLEIAD_LAUNCH_SIZE");
  const int rank = count("PLEIAD_LAUNCH_RANK");
  if (size < 1 || rank < 0 || rank >= size) {
    return impossible("pleiad launch", size, shown({"PLEIAD_LAUNCH_SIZE", "PLEIAD_LAUNCH_RANK"}),
                      " but its variables were changed");
  }
  // The key is random, so it names the job by itself.
  return {.meeting = Meeting::local,
          .by = "pleiad launch",
          .size = size,
          .rank = rank,
          .job = "pleiad launch " + variable("PLEIAD_LAUNCH_KEY"),
          .problem = "",
          .job_variable = "PLEIAD_LAUNCH_KEY",
          .rank_variable = "PLEIAD_LAUNCH_RANK"};
}

Launch read_open_mpi() {
  const int size = count("OMPI_COMM_WORLD_SIZE");
  return {.meeting = Meeting::mpi,
          .by = "mpirun",
          .size = size < 0 ? 0 : size,
          .rank = -1,
          .job = mpi_job(),
          .problem = "",
          .job_variable = "PMIX_NAMESPACE",
          .rank_variable = "PMIX_RANK",
          // In a PID namespace of its own a process sees neither its launcher nor the other ranks.
          .all_here = size > 0 && count("OMPI_COMM_WORLD_LOCAL_SIZE") == size && is_set("PMIX_NAMESPACE") &&
                      launcher_process("PMIX_NAMESPACE").pid > 1};
}

bool on_this_host(const std::string& address) {
  const std::string host = host_name();
  return address == "localhost" || address.starts_with("127.") || address == "::1" || address == host ||
         address.substr(0, address.find('.')) == host.substr(0, host.find('.'));
}

Launch read_torch_as(const char* marker) {
  const std::string by = is_set("TORCHELASTIC_RUN_ID") ? "torchrun" : "a launcher that sets RANK and WORLD_SIZE";
  const std::string all =
      shown({"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"});
  const int size = count("WORLD_SIZE");
  const int rank = count("RANK");
  if (size == 1) return {};
  if (size < 1 || rank < 0 || rank >= size)
    return impossible(by, size, all, " and numbered them in a way that is wrong");
  const int here = count("LOCAL_WORLD_SIZE");
  if (here >= 0 && here != size) {
    return impossible(by, size, all,
                      fmt::format(", {} of them on this host. Processes of several hosts meet by MPI only", here));
  }
  if (here < 0 && !on_this_host(variable("MASTER_ADDR"))) {
    return impossible(by, size, all,
                      ", and neither LOCAL_WORLD_SIZE nor MASTER_ADDR says that all are on this host. Processes of "
                      "several hosts meet by MPI only");
  }
  return local(by, size, rank, marker,
               shown({"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"}));
}

Launch read_torchrun() { return read_torch_as("TORCHELASTIC_RUN_ID"); }
Launch read_torch() { return read_torch_as("RANK"); }

Launch read_slurm() {
  const int size = count("SLURM_STEP_NUM_TASKS");
  if (is_set("PMIX_NAMESPACE") || is_set("PMI_FD")) {
    return {.meeting = Meeting::mpi,
            .by = "srun",
            .size = size < 0 ? 0 : size,
            .rank = -1,
            .job = mpi_job(),
            .problem = ""};
  }
  if (size <= 1) return {};  // srun in front of a program of one process
  const int rank = count("SLURM_PROCID");
  const int nodes = count(is_set("SLURM_STEP_NUM_NODES") ? "SLURM_STEP_NUM_NODES" : "SLURM_NNODES");
  if (rank < 0 || rank >= size || nodes != 1) {
    return impossible("srun", size,
                      shown({"SLURM_STEP_NUM_TASKS", "SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_PROCID"}),
                      " without PMIx, so those of several hosts cannot find each other: use `srun --mpi=pmix` where "
                      "Slurm has it (`srun --mpi=list` says so), or mpirun inside sbatch or salloc");
  }
  return local("srun", size, rank, "SLURM_PROCID", shown({"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"}));
}

Launch read_pmi() {
  const int size = count("PMI_SIZE");
  return {.meeting = Meeting::mpi,
          .by = "an MPI launcher",
          .size = size < 0 ? 0 : size,
          .rank = -1,
          .job = mpi_job(),
          .problem = ""};
}

Launch read_pmix() {
  return {.meeting = Meeting::mpi, .by = "a PMIx launcher", .size = 0, .rank = -1, .job = mpi_job(), .problem = ""};
}

// Launchers whose processes Pleiad cannot join, by the variable with the number of processes.
Launch read_others() {
  for (const char* name : {"MV2_COMM_WORLD_SIZE", "HOROVOD_SIZE", "JSM_NAMESPACE_SIZE", "BLUEFOG_SIZE"}) {
    if (count(name) > 1) {
      return impossible("a launcher", count(name), shown({name}), " in a way that Pleiad cannot join");
    }
  }
  return {};
}

bool is_slurm_step() {
  // sbatch alone sets neither of the two that a task of srun has.
  const bool step = is_set("SLURM_STEP_ID");
  return step && (is_set("SLURM_SRUN_COMM_PORT") || (is_set("SLURM_PROCID") && is_set("SLURM_STEP_NUM_TASKS")));
}

std::vector<Candidate> candidates() {
  std::vector<Candidate> found;
  // `pleiad launch` sets OMPI_COMM_WORLD_SIZE too, for scripts that read it, but never PMIX_NAMESPACE. MPI itself
  // sets that one where the program calls MPI_Init without a launcher of its own.
  const bool pleiad = is_set("PLEIAD_LAUNCH_KEY");
  if (pleiad) found.push_back({"PLEIAD_LAUNCH_KEY", read_pleiad});
  if (is_set("OMPI_COMM_WORLD_SIZE") && (!pleiad || this_process_was_started_with("PMIX_NAMESPACE"))) {
    found.push_back({is_set("PMIX_NAMESPACE") ? "PMIX_NAMESPACE" : "OMPI_COMM_WORLD_SIZE", read_open_mpi});
  }
  if (is_set("TORCHELASTIC_RUN_ID") && is_set("WORLD_SIZE")) found.push_back({"TORCHELASTIC_RUN_ID", read_torchrun});
  if (is_slurm_step()) found.push_back({"SLURM_PROCID", read_slurm});
  if (is_set("PMI_SIZE")) found.push_back({"PMI_SIZE", read_pmi});
  if (found.empty() ? is_set("PMIX_RANK") : this_process_was_started_with("PMIX_RANK"))
    found.push_back({"PMIX_RANK", read_pmix});
  // Scripts set these two themselves, from what another launcher says: so they count last.
  if (is_set("RANK") && is_set("WORLD_SIZE")) found.push_back({"RANK", read_torch});
  return found;
}

}  // namespace

Launch detect_launch() {
  const std::vector<Candidate> found = candidates();
  if (found.empty()) return read_others();
  const Candidate* inner = &found[0];
  if (found.size() > 1) {
    int nearest = launcher_process(inner->marker).generations;
    for (const Candidate& other : found) {
      const int generations = launcher_process(other.marker).generations;
      if (generations >= nearest) continue;
      nearest = generations;
      inner = &other;
    }
  }
  return inner->read();
}

std::set<int> ranks_on_this_host(const Launch& launch) {
  std::set<int> ranks;
  const std::string job = launch.job_variable.empty() ? "" : variable(launch.job_variable.c_str());
  if (job.empty()) return ranks;
  for (const std::string& rank : values_of_processes(launch.job_variable + "=" + job, launch.rank_variable)) {
    if (number_in(rank) >= 0) ranks.insert(number_in(rank));
  }
  return ranks;
}

bool launcher_may_start_processes(const Launch& launch) {
  return may_start_processes(launcher_process(launch.job_variable.c_str()), launch.job_variable);
}

void mark_as_rank(const Launch& launch) { setenv(kMark, (std::to_string(getpid()) + " " + launch.job).c_str(), 1); }

bool spawned_by_a_rank(const Launch& launch) {
  const std::string mark = variable(kMark);
  const std::size_t space = mark.find(' ');
  if (space == std::string::npos || mark.substr(space + 1) != launch.job) return false;
  return mark.substr(0, space) != std::to_string(getpid());
}

}  // namespace pleiad

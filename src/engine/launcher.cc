#include "engine/launcher.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace pleiad {

namespace {

constexpr const char* kMark = "PLEIAD_RANK_PROCESS";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

int count(const std::string& text) { return text.empty() ? 0 : std::atoi(text.c_str()); }

}  // namespace

Launch detect_launch() {
  // PMIx names the job for both Open MPI's mpirun and srun --mpi=pmix; a Slurm step has its own number too.
  const std::string job = variable("PMIX_NAMESPACE") + "/" + variable("SLURM_JOB_ID") + "." +
                          variable("SLURM_STEP_ID") + "/" + variable("PMI_ID");
  if (const std::string size = variable("OMPI_COMM_WORLD_SIZE"); !size.empty()) {
    return {.launched = true, .by = "mpirun", .size = count(size), .job = job};
  }
  // Only srun sets where it can be reached; sbatch alone does not.
  const bool step = !variable("SLURM_STEP_ID").empty() && !variable("SLURM_SRUN_COMM_PORT").empty();
  if (step) {
    const int size = count(variable("SLURM_STEP_NUM_TASKS"));
    const bool strangers = variable("PMIX_NAMESPACE").empty() && variable("PMI_FD").empty();
    if (strangers && size == 1) return {};  // srun in front of a program of one process
    return {.launched = true, .by = "srun", .size = size, .job = job, .strangers = strangers};
  }
  if (const std::string size = variable("PMI_SIZE"); !size.empty()) {
    return {.launched = true, .by = "an MPI launcher", .size = count(size), .job = job};
  }
  if (!variable("PMIX_RANK").empty()) return {.launched = true, .by = "a PMIx launcher", .size = 0, .job = job};
  return {};
}

void mark_as_rank(const Launch& launch) { setenv(kMark, (std::to_string(getpid()) + " " + launch.job).c_str(), 1); }

bool spawned_by_a_rank(const Launch& launch) {
  const std::string mark = variable(kMark);
  const std::size_t space = mark.find(' ');
  if (space == std::string::npos || mark.substr(space + 1) != launch.job) return false;
  return mark.substr(0, space) != std::to_string(getpid());
}

}  // namespace pleiad

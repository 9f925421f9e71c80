// Who started this process: `pleiad launch`, mpirun, torchrun, srun, or nobody.
#pragma once

#include <set>
#include <string>

namespace pleiad {

/// How the processes of a job find each other.
enum class Meeting { none, mpi, local, impossible };

struct Launch {
  Meeting meeting = Meeting::none;  ///< none: no launcher, a world of one
  std::string by;                   ///< "pleiad launch", "mpirun" (Open MPI), "torchrun", "srun", …
  int size = 0;                     ///< number of processes according to the launcher; 0 if it does not say
  int rank = -1;                    ///< only for Meeting::local
  std::string job;      ///< differs between jobs; for Meeting::local, no other job on this host has the same
  std::string problem;  ///< only for Meeting::impossible: the variables, and the ways that work
  /// A variable whose value no other job has, and one with the rank: empty where the launcher sets none.
  std::string job_variable = {};
  std::string rank_variable = {};
  bool all_here = false;  ///< all processes are on this host, where the launcher is visible

  [[nodiscard]] bool launched() const { return meeting != Meeting::none; }
};

/// Reads the launcher's variables. Slurm's batch variables alone are no launcher. If launchers are nested, such as
/// torchrun under mpirun, the innermost one counts.
[[nodiscard]] Launch detect_launch();

/// The ranks of the job that have a process on this host at this moment, whether they have called start or not. Nothing
/// where the launcher's variables do not say.
[[nodiscard]] std::set<int> ranks_on_this_host(const Launch& launch);

/// True while the launcher of `launch` may start more processes on this host. Requires launch.all_here.
[[nodiscard]] bool launcher_may_start_processes(const Launch& launch);

/// Remembers in the environment that this process is a rank of `launch`, for the processes that it spawns.
void mark_as_rank(const Launch& launch);

/// True in a process that a rank of the same job spawned: it inherits the launcher's variables but is no rank.
[[nodiscard]] bool spawned_by_a_rank(const Launch& launch);

}  // namespace pleiad

// Detects how this process was started: by `pleiad launch`, mpirun, torchrun, srun, or without a launcher.
#pragma once

#include <set>
#include <string>

namespace pleiad {

/// How the processes of a job find each other.
enum class Rendezvous { none, mpi, local, impossible };

struct Launch {
  Rendezvous rendezvous = Rendezvous::none;  ///< none: no launcher, a world of one rank
  std::string by;                            ///< "pleiad launch", "mpirun" (Open MPI), "torchrun", "srun", …
  int size = 0;                              ///< number of processes according to the launcher; 0 if unknown
  int rank = -1;                             ///< only for Rendezvous::local
  std::string job;                           ///< identifies the job; for Rendezvous::local it is unique on this host
  std::string problem;  ///< only for Rendezvous::impossible: the launcher's variables and the supported ways to launch
  /// The name of a variable whose value is unique to the job, and of the variable that holds the rank. Empty if the
  /// launcher sets none.
  std::string job_variable = {};
  std::string rank_variable = {};
  bool all_here = false;  ///< all processes are on this host, where the launcher is visible

  [[nodiscard]] bool launched() const { return rendezvous != Rendezvous::none; }
};

/// Reads the launcher's variables. Slurm's batch variables alone do not count as a launcher. If launchers are nested,
/// such as torchrun under mpirun, the innermost one counts.
[[nodiscard]] Launch detect_launch();

/// Returns the ranks of the job that currently have a process on this host, whether or not they have called start.
/// Returns an empty set if the launcher's variables do not identify the job.
[[nodiscard]] std::set<int> ranks_on_this_host(const Launch& launch);

/// Returns true while the launcher of `launch` may start more processes on this host. Requires launch.all_here.
[[nodiscard]] bool launcher_may_start_processes(const Launch& launch);

/// Records in the environment that this process is a rank of `launch`, for the processes that it spawns.
void mark_as_rank(const Launch& launch);

/// Returns true in a process that a rank of the same job spawned. It inherits the launcher's variables but is not a
/// rank.
[[nodiscard]] bool spawned_by_a_rank(const Launch& launch);

}  // namespace pleiad

// Who started this process: `pleiad launch`, mpirun, torchrun, srun, or nobody.
#pragma once

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

  [[nodiscard]] bool launched() const { return meeting != Meeting::none; }
};

/// Reads the launcher's variables. Slurm's batch variables alone are no launcher. If launchers are nested, such as
/// torchrun under mpirun, the innermost one counts.
[[nodiscard]] Launch detect_launch();

/// Remembers in the environment that this process is a rank of `launch`, for the processes that it spawns.
void mark_as_rank(const Launch& launch);

/// True in a process that a rank of the same job spawned: it inherits the launcher's variables but is no rank.
[[nodiscard]] bool spawned_by_a_rank(const Launch& launch);

}  // namespace pleiad

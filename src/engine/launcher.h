// Who started this process: mpirun, srun, or nobody.
#pragma once

#include <string>

namespace pleiad {

struct Launch {
  bool launched = false;
  std::string by;          ///< "mpirun" (Open MPI), "srun", "an MPI launcher"
  int size = 0;            ///< as the launcher says; 0 where it does not
  std::string job;         ///< tells this job from another one
  bool strangers = false;  ///< the launcher gives its processes no way to find each other
};

/// Reads the launcher's variables. Slurm's batch variables alone are no launcher.
[[nodiscard]] Launch detect_launch();

/// Remembers in the environment that this process is a rank of `launch`, for the processes that it spawns.
void mark_as_rank(const Launch& launch);

/// True in a process that a rank of the same job spawned: it inherits the launcher's variables but is no rank.
[[nodiscard]] bool spawned_by_a_rank(const Launch& launch);

}  // namespace pleiad

// The wrapper that `pleiad launch` puts around each rank.
#pragma once

#include <csignal>
#include <string>
#include <vector>

namespace pleiad::cli {

/// The signal by which the launcher asks the job to stop: mpirun forwards it to every wrapper, and the wrappers send
/// SIGINT to their ranks. mpirun sends it to the ranks as well, which ignore it by default.
inline constexpr int kStopSignal = SIGURG;

struct RankOptions {
  double grace = 5;  ///< seconds that the wrapper outlives a failed command, so that the other ranks can report
};

/// Runs `command` as a child that dies with this process, forwards signals to it, prints to stderr how it ended if it
/// failed, and reports to the launcher. Returns the command's exit code, or 128 + its signal. mpirun ends a job when
/// one of its processes fails. After a failure the wrapper therefore stays until the launcher closes the connection, or
/// for the grace period if the launcher is on another host. Must be called first in a process with a single thread.
int run_rank(const RankOptions& options, const std::vector<std::string>& command);

}  // namespace pleiad::cli

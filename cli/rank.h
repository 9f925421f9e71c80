// The wrapper that `pleiad launch` puts around each rank.
#pragma once

#include <csignal>
#include <string>
#include <vector>

namespace pleiad::cli {

/// mpirun hands it to every wrapper, as the launcher asks; they send SIGINT to their ranks. Without a handler it does
/// nothing, so it does no harm in the ranks, which mpirun hands it to as well.
inline constexpr int kStopSignal = SIGURG;

struct RankOptions {
  double grace = 5;  ///< seconds the wrapper outlives a failed command, so that the other ranks can report
};

/// Runs `command` as a child that dies with this process, passes signals on to it, says on stderr how it ended if it
/// failed, and tells the launcher. Returns the command's exit code, or 128 + its signal. mpirun ends a job when a
/// process of it fails; so after a failure the wrapper stays until the launcher closes the connection, or for the
/// grace period where the launcher is on another host. Call it first of all in a process with one thread.
int run_rank(const RankOptions& options, const std::vector<std::string>& command);

}  // namespace pleiad::cli

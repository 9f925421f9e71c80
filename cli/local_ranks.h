// The ranks of a job on this host, started without mpirun.
#pragma once

#include <sched.h>
#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "mpirun.h"
#include "streams.h"

namespace pleiad::cli {

/// Starts one wrapper (`pleiad rank`) for each rank, each the leader of its own process group.
class LocalRanks {
 public:
  /// `mask` is the signal mask of the ranks. Rank 0 reads this process's standard input, the others have none.
  void start(const LaunchOptions& options, const sigset_t& mask);

  /// Sends a signal to every process of every running rank.
  void signal_all(int signal) const;

  /// Records that a wrapper has ended. Returns true if `pid` is a wrapper.
  bool take_end(pid_t pid, int status);

  [[nodiscard]] bool running() const;
  /// Returns the first status of a wrapper that failed, or 0.
  [[nodiscard]] int status() const { return status_; }
  [[nodiscard]] Streams& streams() { return streams_; }

 private:
  std::vector<pid_t> wrappers_;  // 0 after the wrapper has ended
  int status_ = 0;
  Streams streams_;
};

/// Ends all children of this process, that is, everything that a job has left on this host: first by SIGTERM, then by
/// SIGKILL.
void end_descendants();

}  // namespace pleiad::cli

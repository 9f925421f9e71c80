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

/// Starts one wrapper (`pleiad rank`) for each rank, each the leader of a process group of its own.
class LocalRanks {
 public:
  /// `mask` is the signal mask that the ranks get. Rank 0 reads this process's standard input, the others none.
  void start(const LaunchOptions& options, const sigset_t& mask);

  /// Sends a signal to every process of every rank that runs.
  void signal_all(int signal) const;

  /// Takes note of a wrapper that has ended. True if `pid` is one.
  bool take_end(pid_t pid, int status);

  [[nodiscard]] bool running() const;
  /// The first status of a wrapper that failed, or 0.
  [[nodiscard]] int status() const { return status_; }
  [[nodiscard]] Streams& streams() { return streams_; }

 private:
  std::vector<pid_t> wrappers_;  // 0 after its end
  int status_ = 0;
  Streams streams_;
};

/// Ends all children of this process: what a job has left on this host. Asks by SIGTERM and ends by SIGKILL.
void end_descendants();

}  // namespace pleiad::cli

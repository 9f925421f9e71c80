// `pleiad launch`: starts a job of several ranks, on this host or by mpirun, and monitors it.
#pragma once

#include "mpirun.h"

namespace pleiad::cli {

/// Runs the job to its end and leaves no process of a failed one behind. Returns 0, the code of the rank that failed
/// first (128 + signal for a signal), 124 after a timeout, 128 + signal if a signal ended this process, or mpirun's
/// own code. Throws std::runtime_error if the job cannot start.
int launch(const LaunchOptions& options);

}  // namespace pleiad::cli

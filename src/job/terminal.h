// Detects whether the output of this process appears on a terminal.
#pragma once

#include "pleiad/api.h"

namespace pleiad {

/// Returns true if stderr is a terminal, or if mpirun, srun or `pleiad launch`, which forward stderr, started this
/// process and their stderr is a terminal.
[[nodiscard]] PLEIAD_API bool on_terminal();

}  // namespace pleiad

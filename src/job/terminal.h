// Whether somebody watches this run on a terminal.
#pragma once

#include "pleiad/api.h"

namespace pleiad {

/// True where stderr is a terminal, or where this process was started by mpirun, srun or `pleiad launch`, which forward
/// stderr, and theirs is one.
[[nodiscard]] PLEIAD_API bool on_terminal();

}  // namespace pleiad

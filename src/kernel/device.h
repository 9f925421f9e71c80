// The seam for other back ends than the CPU's. Above src/kernel nobody knows where numbers are computed.
#pragma once

#include <string>
#include <vector>

#include "pleiad/api.h"

namespace pleiad::kernel {

/// The GPUs that this machine shows, by their device files; known to a back end or not.
[[nodiscard]] PLEIAD_API std::vector<std::string> gpus_here();

/// An InvalidArgument that says what was asked for and what is there, where no back end computes on this GPU. Without a
/// back end that is any of them: cpu_only.cc, which CMake would put aside for that of a GPU.
PLEIAD_API void expect_device(int id);

}  // namespace pleiad::kernel

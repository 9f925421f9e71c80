// The interface for back ends other than the CPU. Code above src/kernel does not know where values are computed.
#pragma once

#include <string>
#include <vector>

#include "pleiad/api.h"

namespace pleiad::kernel {

/// Returns the device files of the GPUs on this machine, whether a back end supports them or not.
[[nodiscard]] PLEIAD_API std::vector<std::string> gpus_here();

/// Throws InvalidArgument with the requested and the available devices if no back end supports this GPU. Without a GPU
/// back end it always throws; CMake would replace cpu_only.cc by the back end's file.
PLEIAD_API void expect_device(int id);

}  // namespace pleiad::kernel

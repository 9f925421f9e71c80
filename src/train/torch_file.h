// Reads state dicts that torch.save wrote.
#pragma once

#include <filesystem>

#include "pleiad/api.h"
#include "pleiad/nn/net.h"

namespace pleiad {

/// Returns true if the file starts like those of torch.save: they are zip archives.
[[nodiscard]] PLEIAD_API bool is_torch_file(const std::filesystem::path& path);

/// Returns copies of the float32, float64, int32 and int64 arrays of a state dict, or of the one under the key
/// "state_dict" or "model_state_dict". Never executes code from the file. Throws a FileError that names the file and
/// the array concerned, if any.
[[nodiscard]] nn::NamedTensors read_torch_file(const std::filesystem::path& path);

}  // namespace pleiad

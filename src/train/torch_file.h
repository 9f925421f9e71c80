// State dicts that PyTorch's torch.save wrote.
#pragma once

#include <filesystem>

#include "pleiad/api.h"
#include "pleiad/nn/net.h"

namespace pleiad {

/// Whether the file begins as torch.save's do: it is a zip archive.
[[nodiscard]] PLEIAD_API bool is_torch_file(const std::filesystem::path& path);

/// Copies of a state dict's arrays of float32, float64, int32 or int64, or of that under the key "state_dict" or
/// "model_state_dict". Nothing of the file is executed. A FileError that names the file and, where it is about one, the
/// array.
[[nodiscard]] nn::NamedTensors read_torch_file(const std::filesystem::path& path);

}  // namespace pleiad

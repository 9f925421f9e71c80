// SINGA's checkpoint files, stepN-worker0, for `pleiad inspect`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace pleiad::cli {

struct SingaParameter {
  std::string name;
  std::int64_t version = 0;  ///< the step at which it was saved
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

/// Returns the parameters of a BlobProtos message, or nothing if the file is not one.
[[nodiscard]] std::optional<std::vector<SingaParameter>> read_singa_checkpoint(const std::filesystem::path& path);

}  // namespace pleiad::cli

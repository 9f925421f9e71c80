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
  std::int64_t version = 0;  ///< the step that it was saved at
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

/// The parameters of a BlobProtos message; nothing where the file holds none.
[[nodiscard]] std::optional<std::vector<SingaParameter>> read_singa_checkpoint(const std::filesystem::path& path);

}  // namespace pleiad::cli

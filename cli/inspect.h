// `pleiad inspect`: prints the content of a snapshot, a checkpoint, a SINGA checkpoint or a safetensors file.
#pragma once

#include <filesystem>

namespace pleiad::cli {

struct InspectOptions {
  std::filesystem::path path;  ///< a saved set, a folder of them, a .safetensors file or SINGA's stepN-worker0
  bool numbers = false;        ///< print minimum, maximum and mean of every array
  bool verify = false;         ///< read everything and compare the checksums
  bool net = false;            ///< print the net of a checkpoint, as JSON, instead of its number of layers
};

/// Prints the content. Throws a FileError if the file is of another kind or is damaged. Returns the exit code of the
/// process.
int inspect(const InspectOptions& options);

}  // namespace pleiad::cli

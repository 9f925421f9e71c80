// `pleiad inspect`: what a snapshot, a checkpoint, a checkpoint of SINGA or a safetensors file holds.
#pragma once

#include <filesystem>

namespace pleiad::cli {

struct InspectOptions {
  std::filesystem::path path;  ///< a saved set, a folder of them, a .safetensors file or SINGA's stepN-worker0
  bool numbers = false;        ///< least, greatest and mean of every array
  bool verify = false;         ///< read everything and compare the checksums
};

/// Prints it. Throws a FileError for what is none of these, or is damaged. Returns the process's exit code.
int inspect(const InspectOptions& options);

}  // namespace pleiad::cli

// `pleiad inspect`: what a snapshot, a checkpoint or a safetensors file holds.
#pragma once

#include <filesystem>

namespace pleiad::cli {

struct InspectOptions {
  std::filesystem::path path;  ///< a saved set, a folder of snapshots, or a .safetensors file
  bool numbers = false;        ///< least, greatest and mean of every array
  bool verify = false;         ///< read everything and compare the checksums
};

/// Prints it. Throws a FileError for what is none of these, or is damaged. Returns the process's exit code.
int inspect(const InspectOptions& options);

}  // namespace pleiad::cli

// Finds a net by its name on the command line.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "pleiad/error.h"
#include "pleiad/plan.h"
#include "pleiad/train.h"

namespace pleiad::cli {

/// Returns a net, given the name of an example, a file written from Net::text(), or the folder of a checkpoint.
inline nn::Net net_named(const std::string& name) {
  if (std::filesystem::is_directory(name)) return load_net(name);
  if (!std::filesystem::exists(name)) {
    try {
      return example_net(name);
    } catch (const InvalidArgument& mistake) {
      throw InvalidArgument(fmt::format("{}; nor is it a file or a checkpoint", mistake.what()));
    }
  }
  std::ifstream file(name, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  if (!file) throw FileError(fmt::format("{}: cannot be read", name));
  return nn::net_from_text(text, name);
}

}  // namespace pleiad::cli

// The stub that stands in for a GPU back end.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "core/text.h"
#include "kernel/device.h"
#include "pleiad/error.h"

namespace pleiad::kernel {

std::vector<std::string> gpus_here() {
  std::vector<std::string> found;
  const auto look = [&](const std::string& folder, const std::string& prefix) {
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
      const std::string name = entry.path().filename().string();
      if (name.size() > prefix.size() && name.starts_with(prefix) &&
          std::isdigit(static_cast<unsigned char>(name[prefix.size()])) != 0) {
        found.push_back(entry.path().string());
      }
    }
  };
  look("/dev", "nvidia");
  look("/dev/dri", "renderD");
  std::ranges::sort(found);
  return found;
}

void expect_device(int id) {
  const std::vector<std::string> here = gpus_here();
  throw InvalidArgument(
      fmt::format("expected a CPU; received device {}. This machine {}, but this build supports only CPUs", id,
                  here.empty() ? "shows no GPU" : "has " + join(here)));
}

}  // namespace pleiad::kernel

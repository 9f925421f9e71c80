// The secret that the processes of one job share.
#pragma once

#include <cstdint>

namespace pleiad {

/// 128 random bits.
struct JobKey {
  std::uint64_t words[2] = {0, 0};
  [[nodiscard]] bool operator==(const JobKey&) const = default;
  static JobKey random();
};

}  // namespace pleiad

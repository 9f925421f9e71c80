// What tests of clusters of threads start from.
#pragma once

#include <cstdint>

#include "pleiad/options.h"

namespace pleiad::test {

/// So many floats that a table of them has three stripes.
constexpr std::int64_t kThreeStripes = 3 * 128 * 1024 / 4;

/// Ranks on `count` hosts, without a log.
inline SessionOptions hosts(int count) {
  SessionOptions options;
  options.split_hosts = count;
  options.log_level = "off";
  return options;
}

}  // namespace pleiad::test

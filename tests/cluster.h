// Common parts of tests that run clusters of threads.
#pragma once

#include <cstdint>

#include "pleiad/options.h"

namespace pleiad::test {

/// The number of floats of a table that has three stripes.
constexpr std::int64_t kThreeStripes = 3 * 128 * 1024 / 4;

/// Options for ranks on `count` hosts, without a log.
inline SessionOptions hosts(int count) {
  SessionOptions options;
  options.split_hosts = count;
  options.log_level = "off";
  return options;
}

}  // namespace pleiad::test

// How a table's values are arranged in memory, and which server owns which of them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "pleiad/dtype.h"

namespace pleiad {

inline constexpr std::int64_t kStripeBytes = 128 * 1024;

/// Values form units, and units form stripes. A unit is what a rule updates as a whole: a row of a matrix, a block of
/// an array. A stripe is what one lock guards: as many whole units as fit into kStripeBytes, at least one.
struct Geometry {
  std::int64_t elements = 0;
  std::int64_t units = 0;
  std::int64_t unit_length = 0;  ///< the last unit of an array may be shorter
  std::int64_t stripe_units = 1;

  static Geometry array(std::int64_t size, DType dtype) {
    const std::int64_t block = kStripeBytes / static_cast<std::int64_t>(size_of(dtype));
    return {.elements = size, .units = (size + block - 1) / block, .unit_length = block, .stripe_units = 1};
  }
  static Geometry matrix(std::int64_t rows, std::int64_t cols, DType dtype) {
    const std::int64_t row_bytes = cols * static_cast<std::int64_t>(size_of(dtype));
    return {.elements = rows * cols,
            .units = rows,
            .unit_length = cols,
            .stripe_units = std::max<std::int64_t>(1, kStripeBytes / std::max<std::int64_t>(1, row_bytes))};
  }

  [[nodiscard]] std::int64_t stripes() const { return (units + stripe_units - 1) / stripe_units; }
  [[nodiscard]] std::int64_t stripe_of(std::int64_t unit) const { return unit / stripe_units; }
  [[nodiscard]] std::int64_t first_unit(std::int64_t stripe) const { return stripe * stripe_units; }
  [[nodiscard]] std::int64_t end_unit(std::int64_t stripe) const {
    return std::min(units, (stripe + 1) * stripe_units);
  }
  /// Returns the first element of a unit; for the unit after the last one, the number of elements.
  [[nodiscard]] std::int64_t start(std::int64_t unit) const { return std::min(elements, unit * unit_length); }
};

/// The elements of an array or rows of a matrix that one server owns: equal consecutive runs, with the remainder in the
/// last one (as in Multiverso).
struct ShardRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

[[nodiscard]] constexpr ShardRange shard_range(std::int64_t count, int servers, int server) {
  const std::int64_t run = count / servers;
  // If there are fewer elements than servers, the first servers own one each.
  if (run == 0) return {std::min<std::int64_t>(server, count), std::min<std::int64_t>(server + 1, count)};
  return {server * run, server + 1 == servers ? count : (server + 1) * run};
}

}  // namespace pleiad

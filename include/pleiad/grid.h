// Ranks laid out over an image: rows and columns of tiles, and groups of ranks that each have a shard of the batch.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "pleiad/api.h"
#include "pleiad/interval.h"

namespace pleiad {

[[nodiscard]] inline Interval intersect(Interval a, Interval b) {
  const Interval both{std::max(a.begin, b.begin), std::min(a.end, b.end)};
  return both.empty() ? Interval{} : both;
}

/// Returns part `index` of a length that is split into `parts`: each part is length / parts long, and the first length
/// % parts ones are one longer.
[[nodiscard]] inline Interval part_of(std::int64_t length, std::int64_t parts, std::int64_t index) {
  const auto begin = [&](std::int64_t i) { return length / parts * i + std::min(i, length % parts); };
  return {begin(index), begin(index + 1)};
}

/// A rectangle of positions in an image: rows h, columns w. Empty if either is.
struct Rect {
  Interval h;
  Interval w;
  [[nodiscard]] bool empty() const { return h.empty() || w.empty(); }
  [[nodiscard]] std::int64_t places() const { return h.size() * w.size(); }
  friend bool operator==(const Rect&, const Rect&) = default;
};

[[nodiscard]] inline Rect intersect(const Rect& a, const Rect& b) {
  const Rect both{intersect(a.h, b.h), intersect(a.w, b.w)};
  return both.empty() ? Rect{} : both;
}

/// A grid of groups * rows * cols ranks, ordered by group, then by row, then by column.
struct PLEIAD_API Grid {
  int rows = 1;
  int cols = 1;
  int groups = 1;

  [[nodiscard]] int tiles() const { return rows * cols; }
  [[nodiscard]] int size() const { return tiles() * groups; }
  [[nodiscard]] int group_of(int rank) const { return rank / tiles(); }
  /// Returns the index of the rank's tile in its group, row by row.
  [[nodiscard]] int tile_of(int rank) const { return rank % tiles(); }
  /// Returns the positions of a tile in an image of height x width; may be empty.
  [[nodiscard]] Rect tile(std::int64_t height, std::int64_t width, int tile) const {
    return {part_of(height, rows, tile / cols), part_of(width, cols, tile % cols)};
  }
  /// Returns, for each group, the ranks of its tiles in order.
  [[nodiscard]] std::vector<std::vector<int>> teams() const;
  /// Returns, for each tile, the ranks that hold it in each group.
  [[nodiscard]] std::vector<std::vector<int>> twins() const;
  /// Returns text such as "2x3" or "2x3 in 2 groups".
  [[nodiscard]] std::string text() const;
  friend bool operator==(const Grid&, const Grid&) = default;
};

/// Parses "2x3" or "2x3x2" (rows, columns, groups). Throws InvalidArgument for other text, or if the number of ranks is
/// not that of the grid.
[[nodiscard]] PLEIAD_API Grid grid_named(const std::string& text, int ranks);

}  // namespace pleiad

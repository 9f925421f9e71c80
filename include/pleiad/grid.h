// Ranks laid over an image: rows and columns of tiles, and groups of ranks that have a share of the batch each.
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

/// Part `index` of a length that is cut into `parts`: each length / parts long, the first length % parts one more.
[[nodiscard]] inline Interval part_of(std::int64_t length, std::int64_t parts, std::int64_t index) {
  const auto begin = [&](std::int64_t i) { return length / parts * i + std::min(i, length % parts); };
  return {begin(index), begin(index + 1)};
}

/// Places of an image: rows h, columns w. Empty where either is.
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

/// groups * rows * cols ranks, by group, then by row, then by column.
struct PLEIAD_API Grid {
  int rows = 1;
  int cols = 1;
  int groups = 1;

  [[nodiscard]] int tiles() const { return rows * cols; }
  [[nodiscard]] int size() const { return tiles() * groups; }
  [[nodiscard]] int group_of(int rank) const { return rank / tiles(); }
  /// The rank's tile in its group, row by row.
  [[nodiscard]] int tile_of(int rank) const { return rank % tiles(); }
  /// The places of a tile, of an image of height x width. May be empty.
  [[nodiscard]] Rect tile(std::int64_t height, std::int64_t width, int tile) const {
    return {part_of(height, rows, tile / cols), part_of(width, cols, tile % cols)};
  }
  /// The ranks of each group, by tile.
  [[nodiscard]] std::vector<std::vector<int>> teams() const;
  /// The ranks that have the same tile, by group.
  [[nodiscard]] std::vector<std::vector<int>> twins() const;
  /// "2x3", "2x3 in 2 groups".
  [[nodiscard]] std::string text() const;
  friend bool operator==(const Grid&, const Grid&) = default;
};

/// From "2x3", "2x3x2" (rows, columns, groups); a number of ranks that is not the grid's is an InvalidArgument, and so
/// is other text.
[[nodiscard]] PLEIAD_API Grid grid_named(const std::string& text, int ranks);

}  // namespace pleiad

// Handling of rows that a call names repeatedly.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "core/kernels.h"
#include "pleiad/table.h"

namespace pleiad {

struct SummedRows {
  std::vector<RowId> ids;
  std::vector<char> delta;
};

/// Returns each id once, with the sum of its deltas; returns nothing if no id is repeated.
[[nodiscard]] inline std::optional<SummedRows> sum_duplicates(DType dtype, std::int64_t cols,
                                                              std::span<const RowId> ids, const char* delta) {
  if (ids.size() < 2) return std::nullopt;
  std::vector<std::size_t> order(ids.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return ids[i]; });
  const auto same = [&](std::size_t a, std::size_t b) { return ids[a] == ids[b]; };
  if (std::ranges::adjacent_find(order, same) == order.end()) return std::nullopt;
  const std::int64_t row_bytes = cols * static_cast<std::int64_t>(size_of(dtype));
  SummedRows rows;
  for (std::size_t k = 0; k < order.size(); ++k) {
    const char* row = delta + static_cast<std::int64_t>(order[k]) * row_bytes;
    if (k > 0 && same(order[k], order[k - 1])) {
      add_to(dtype, rows.delta.data() + rows.delta.size() - row_bytes, row, static_cast<std::size_t>(cols));
    } else {
      rows.ids.push_back(ids[order[k]]);
      rows.delta.insert(rows.delta.end(), row, row + row_bytes);
    }
  }
  return rows;
}

}  // namespace pleiad

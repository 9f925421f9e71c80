// Assigns buffers to offsets in one block of memory, given when each buffer is live.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace pleiad::nn {

struct Lifetime {
  std::size_t bytes = 0;
  int first = 0;  ///< first moment at which the buffer is live
  int last = 0;
  std::size_t offset = 0;  ///< set by plan_memory
};

/// Assigns offsets so that buffers which are live at the same time do not overlap. Places the largest buffers first.
/// Rounds `bytes` up to a multiple of 64. Returns the total size in bytes.
inline std::size_t plan_memory(std::vector<Lifetime>& buffers) {
  std::vector<Lifetime*> order;
  for (Lifetime& b : buffers) order.push_back(&b);
  std::ranges::stable_sort(order, [](const Lifetime* a, const Lifetime* b) { return a->bytes > b->bytes; });
  std::vector<Lifetime*> placed;
  std::size_t whole = 0;
  for (Lifetime* buffer : order) {
    buffer->bytes = (buffer->bytes + 63) / 64 * 64;
    std::size_t offset = 0;
    for (const Lifetime* other : placed) {  // sorted by offset
      if (other->last < buffer->first || buffer->last < other->first) continue;
      if (offset + buffer->bytes <= other->offset) break;
      offset = std::max(offset, other->offset + other->bytes);
    }
    buffer->offset = offset;
    whole = std::max(whole, offset + buffer->bytes);
    placed.insert(std::ranges::upper_bound(placed, offset, {}, &Lifetime::offset), buffer);
  }
  return whole;
}

}  // namespace pleiad::nn

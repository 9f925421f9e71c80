// Where buffers lie in one piece of memory, given when each is alive.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace pleiad::nn {

struct Lifetime {
  std::size_t bytes = 0;
  int first = 0;  ///< the first and the last moment at which the buffer holds something
  int last = 0;
  std::size_t offset = 0;  ///< found by plan_memory
};

/// Gives buffers that are alive at one moment places that do not overlap, the large ones first; returns the bytes
/// needed.
inline std::size_t plan_memory(std::vector<Lifetime>& buffers) {
  std::vector<Lifetime*> order;
  for (Lifetime& b : buffers) order.push_back(&b);
  std::ranges::stable_sort(order, [](const Lifetime* a, const Lifetime* b) { return a->bytes > b->bytes; });
  std::vector<Lifetime*> placed;
  std::size_t whole = 0;
  for (Lifetime* buffer : order) {
    buffer->bytes = (buffer->bytes + 63) / 64 * 64;
    std::size_t offset = 0;
    for (const Lifetime* other : placed) {  // by offset
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

// How a rank writes what the other ranks of its host will read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace pleiad {

/// Copies through the cache, or past it to memory. Between cores that share a cache the first is the faster; between
/// cores that do not, the lines that another core has read must be fetched back before they can be written, and the
/// second is up to four times as fast. Which it is depends on where the ranks run, so large copies are timed and the
/// way is learned. For one thread at a time.
class HandOver {
 public:
  /// What is written is there for whoever sees a later release store of this thread.
  void copy(void* to, const void* from, std::size_t bytes);

 private:
  enum Way : std::uint8_t { kCached, kPast };

  std::array<double, 2> cost_{};  // nanoseconds a byte: the least of late, forgotten little by little; 0: not tried
  Way best_ = kCached;
  std::uint32_t copies_ = 0;
};

}  // namespace pleiad

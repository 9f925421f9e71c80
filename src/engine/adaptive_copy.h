// Copies into shared memory that other ranks of the host will read.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace pleiad {

/// Copies either through the cache or with non-temporal stores. Between cores that share a cache, cached copies are
/// faster. Between cores that do not, cache lines that another core has read must be fetched back before they can be
/// written, and non-temporal stores are up to four times as fast. Which case applies depends on where the ranks run, so
/// large copies are timed and the faster path is learned. Not thread-safe.
class AdaptiveCopy {
 public:
  /// The bytes are visible to every thread that sees a later release store of this thread.
  void copy(void* to, const void* from, std::size_t bytes);

 private:
  enum Path : std::uint8_t { kCached, kNonTemporal };

  std::array<double, 2> cost_{};  // nanoseconds per byte: the recent minimum, which slowly grows; 0: not tried
  Path best_ = kCached;
  std::uint32_t copies_ = 0;
};

}  // namespace pleiad

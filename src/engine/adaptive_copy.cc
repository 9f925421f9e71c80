#include "engine/adaptive_copy.h"

#include <algorithm>

#include "core/kernels.h"
#include "core/process.h"

namespace pleiad {

namespace {

constexpr std::size_t kCachedBelow = 16 * 1024;
constexpr std::size_t kTimedFrom = 64 * 1024;  // shorter copies use the path that is best from this size on
constexpr std::uint32_t kTryOther = 128;       // one of so many copies tries the other path
constexpr double kForget = 1.1;                // growth of the minimum with each copy that was slower

}  // namespace

void AdaptiveCopy::copy(void* to, const void* from, std::size_t bytes) {
  if (bytes < kCachedBelow) return copy_bytes(to, from, bytes);
  const bool timed = bytes >= kTimedFrom;
  const bool other = timed && copies_++ % kTryOther == 1;
  const Path path = other == (best_ == kCached) ? kNonTemporal : kCached;
  const std::int64_t start = timed ? now_ns() : 0;
  path == kNonTemporal ? copy_bytes_non_temporal(to, from, bytes) : copy_bytes(to, from, bytes);
  if (!timed) return;
  const double cost = static_cast<double>(now_ns() - start) / static_cast<double>(bytes);
  double& least = cost_[path];
  least = least == 0 ? cost : std::min(cost, least * kForget);
  if (cost_[kNonTemporal] > 0) best_ = cost_[kNonTemporal] < cost_[kCached] ? kNonTemporal : kCached;
}

}  // namespace pleiad

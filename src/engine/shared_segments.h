// Memory that all ranks of a host share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/collectives.h"
#include "engine/membership.h"
#include "engine/rank_context.h"
#include "engine/segment.h"

namespace pleiad {

/// An engine implements it so that the ranks of one host share memory.
class SegmentSource {
 public:
  virtual ~SegmentSource() = default;
  /// Allocates memory that the other ranks of this host can fetch under `id`. One rank of the host calls it, before a
  /// barrier.
  [[nodiscard]] virtual std::shared_ptr<Segment> make_segment(std::uint64_t id, std::size_t bytes,
                                                              bool reserve_only) = 0;
  /// The other ranks call it after the barrier.
  [[nodiscard]] virtual std::shared_ptr<Segment> fetch_segment(std::uint64_t id, std::size_t bytes) = 0;
};

class SharedSegments {
 public:
  SharedSegments(const RankContext& context, const Membership& members, Collectives& collectives,
                 SegmentSource& source);

  /// Returns memory that all ranks of this host share, initially zero. Collective over the world; the ranks of one host
  /// pass the same size. If the allocation fails on any rank, all ranks throw its error.
  [[nodiscard]] std::shared_ptr<Segment> share(std::size_t bytes, bool reserve_only);

 private:
  const RankContext& context_;
  const Membership& members_;
  Collectives& collectives_;
  SegmentSource& source_;
  std::uint64_t made_ = 0;
};

}  // namespace pleiad

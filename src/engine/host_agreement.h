// How the ranks of several hosts agree on a collective before they begin it.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/collective_steps.h"
#include "engine/membership.h"
#include "engine/order_failure.h"
#include "engine/rank_context.h"
#include "engine/remote_operations.h"

namespace pleiad {

/// MPI would mix up collectives that differ. So each rank says what it is about to do, in an all-gather, before it does
/// it. A rank that leaves the world or knows of a failure says so here, so that no rank is left waiting inside MPI. One
/// thread of a rank uses it at a time.
class HostAgreement {
 public:
  HostAgreement(const RankContext& context, const Membership& members, OrderFailure& failure)
      : context_(context), members_(members), failure_(failure) {}

  void connect(RemoteOperations& remote) { remote_ = &remote; }

  /// Throws an OrderError if a rank is in another collective, has shut down or knows of a failure. Returns the number
  /// that each rank contributed.
  std::vector<std::uint64_t> agree(const CollectiveSignature& mine, std::uint64_t number = 0);
  /// Announces that this rank leaves, and returns when all ranks do. Other ranks may still be in collectives, which
  /// fail because of this rank's shutdown.
  void leave();

 private:
  struct Announcement {
    CollectiveSignature signature;
    std::uint64_t number = 0;
    std::uint64_t failed = 0;  ///< 1 if the rank knows of an order failure
  };
  std::vector<Announcement> exchange(Announcement mine);

  const RankContext& context_;
  const Membership& members_;
  OrderFailure& failure_;
  RemoteOperations* remote_ = nullptr;
};

}  // namespace pleiad

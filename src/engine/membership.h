// Which ranks of a world are alive, dead or left.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/rank_context.h"

namespace pleiad {

class RpcTransport;

/// The liveness of all ranks, as far as this rank knows it. Thread-safe. A change on this host is visible to its ranks
/// at once; the transport carries it to the other hosts.
class Membership {
 public:
  explicit Membership(const RankContext& context);

  [[nodiscard]] Liveness liveness(int rank) const;
  /// Returns true if the rank died, or if it left and its process has ended. Its locks may then be taken over.
  /// Requires a rank of this host.
  [[nodiscard]] bool has_ended(int rank) const;
  /// The seconds since the last message from a rank's host; 0 for a rank of this host.
  [[nodiscard]] double silence(int rank) const;
  /// For messages, such as "rank 2 (pid 4711 on node7)".
  [[nodiscard]] std::string describe(int rank) const;

  /// Throws a StateError in a forked child of the process that made the engine, and after this rank has left the world.
  void check_usable(std::string_view where) const;
  [[nodiscard]] bool in_forked_child() const;
  [[nodiscard]] bool has_left() const { return left_.load(); }
  /// Marks this rank as `liveness` without waiting for the others. Requires that the rank holds no lock, unless a test
  /// killed it. Has no effect in a forked child and after the rank has left.
  void abandon(Liveness liveness);
  /// Wakes all waiters on this host after a change to a state that they check.
  void wake_all() const;

  // For the engine, which starts and ends the membership of a rank.
  void announce_alive();
  void announce_leaving();
  /// From now on, check_usable throws.
  void set_left() { left_.store(true); }
  /// Records that the process of a rank of this host has ended. The rank is dead unless it has left.
  void mark_process_ended(int rank);
  /// Tells all waiters of this host and the other hosts that the state of this host has changed.
  void announce_change() const;
  /// The transport that knows the ranks of other hosts and tells them about this one.
  void connect(RpcTransport& rpc) { rpc_ = &rpc; }

 private:
  const RankContext& context_;
  RpcTransport* rpc_ = nullptr;
  std::uint64_t made_in_generation_;
  std::atomic<bool> left_{false};
};

}  // namespace pleiad

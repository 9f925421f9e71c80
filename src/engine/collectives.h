// Collectives of all ranks of a world.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/function_ref.h"
#include "engine/activity.h"
#include "engine/adaptive_copy.h"
#include "engine/collective_steps.h"
#include "engine/host_agreement.h"
#include "engine/rank_context.h"
#include "engine/reduce.h"
#include "engine/remote_operations.h"
#include "engine/waiter.h"

namespace pleiad {

/// All ranks call the collectives in the same order, one at a time. A second thread of a rank that calls a collective
/// while another one runs gets a StateError. If ranks call different collectives, all of them get an OrderError. If a
/// rank dies, the collectives throw a TransportError that names it.
class Collectives {
 public:
  Collectives(RankContext& context, const Membership& members, OrderFailure& failure, Activity& activity,
              Waiter& waiter);

  void barrier() {
    barrier(0, [](int, std::uint64_t) {});
  }
  /// A barrier in which every rank contributes a value. `each` receives the values of all ranks in rank order; the
  /// values are the same on every rank.
  void barrier(std::uint64_t number, FunctionRef<void(int rank, std::uint64_t number)> each);
  void broadcast(void* data, std::size_t bytes, int root);
  /// Reduces in place, in rank order, so all ranks get bit-identical results. Multiplies the result by `factor`, which
  /// must be 1 for integers. All ranks must pass the same `tag`.
  void all_reduce(DType dtype, void* data, std::size_t count, Reduce op, double factor = 1, std::uint32_t tag = 0);
  /// Gathers `bytes` bytes of every rank into `out`, which holds size() * bytes, in rank order.
  void all_gather(const void* in, void* out, std::size_t bytes);
  /// Reduces `in`, which holds size() * count elements, and writes the block of this rank to `out`.
  void reduce_scatter(DType dtype, const void* in, void* out, std::size_t count, Reduce op);
  using CopyPiece = FunctionRef<void(void* to, const void* from, std::size_t bytes)>;
  using FillUnit = FunctionRef<void(char* to, std::size_t at, std::size_t n, CopyPiece copy)>;
  /// Sums `bytes` bytes of all ranks in rank order, in units of `unit` bytes (a divisor of kChunkBytes). One rank sums
  /// each unit. fill(to, at, n, copy) writes this rank's bytes [at, at + n) by calling copy; take(at, sum, n) receives
  /// the sum of a unit that this rank owns. Returns when every rank has finished its units. All ranks must pass the
  /// same `detail`. A rank that cannot take part passes `refused` = true: then nothing is summed and all ranks get
  /// false. Requires a world on one host.
  [[nodiscard]] bool reduce_units(DType dtype, std::size_t bytes, std::size_t unit, std::uint32_t detail, bool refused,
                                  FillUnit fill,
                                  FunctionRef<void(std::size_t at, const char* sum, std::size_t n)> take);

  // For the engine.
  void connect(RemoteOperations& remote);
  /// Ends the collectives between hosts; see HostAgreement::leave.
  void leave_hosts() { agreement_.leave(); }

 private:
  class Scope;  // one collective of this rank

  void reduce_flat(DType dtype, char* data, std::size_t bytes, Reduce op, double factor,
                   const CollectiveSignature& signature);
  void reduce_by_parts(DType dtype, char* data, std::size_t bytes, Reduce op, double factor,
                       const CollectiveSignature& signature);
  // Ends the first step of a collective with a check, and the others without.
  void end_step(bool first, const CollectiveSignature& signature);

  RankContext& context_;
  const Membership& members_;
  Activity& activity_;
  CollectiveSteps steps_;
  HostAgreement agreement_;
  RemoteOperations* remote_ = nullptr;
  std::atomic<bool> in_collective_{false};
  AdaptiveCopy adaptive_copy_;  // used by the thread that is in a collective
};

}  // namespace pleiad

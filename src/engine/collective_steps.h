// The steps of collectives among the ranks of one host, through the buffers of the control segment.
//
// In each step every rank fills its buffer, announces its arrival, and waits until all ranks have arrived. Buffers
// alternate by the parity of the step: a rank that has seen all ranks arrive at step s knows that all have finished
// reading the buffers of step s - 1, so it may fill those for step s + 1.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/membership.h"
#include "engine/order_failure.h"
#include "engine/rank_context.h"
#include "engine/waiter.h"

namespace pleiad {

/// The properties of a collective on which all ranks must agree.
struct CollectiveSignature {
  std::uint64_t what = 0;   ///< the call in the lowest byte; above it its type, operation, root or tag
  std::uint64_t bytes = 0;  ///< of one rank

  friend bool operator==(const CollectiveSignature&, const CollectiveSignature&) = default;
};
[[nodiscard]] constexpr CollectiveSignature signature_of(Call call, std::uint64_t detail, std::uint64_t bytes) {
  return {.what = static_cast<std::uint64_t>(call) | detail, .bytes = bytes};
}
[[nodiscard]] constexpr Call call_of(const CollectiveSignature& signature) {
  return static_cast<Call>(signature.what & 0xff);
}

/// Throws an OrderError that names both ranks if another rank is in a different collective.
void check_same_collective(const RankContext& context, const Membership& members, OrderFailure& failure, int rank,
                           const CollectiveSignature& theirs, const CollectiveSignature& mine);

/// One thread of a rank uses it at a time.
class CollectiveSteps {
 public:
  CollectiveSteps(RankContext& context, const Membership& members, OrderFailure& failure, Waiter& waiter)
      : context_(context), members_(members), failure_(failure), waiter_(waiter) {}

  /// The number of the last step at which this rank has arrived.
  [[nodiscard]] std::uint64_t last() const { return step_; }
  /// The buffer of this rank for the next step, and the buffer of any rank in the last step.
  [[nodiscard]] char* next_buffer() const { return context_.control.buffer(context_.world.here().local, step_ + 1); }
  [[nodiscard]] const char* buffer(int local) const { return context_.control.buffer(local, step_); }

  /// Declares the collective that begins with the next step.
  void begin(const CollectiveSignature& mine);
  /// A number that each rank adds to the collective that begins with the next step; those of the last step.
  void contribute(std::uint64_t number);
  [[nodiscard]] std::uint64_t contribution(int local) const;
  /// Announces that this rank has filled its buffer. Returns the number of the step.
  std::uint64_t arrive();
  /// Waits until all ranks have arrived at `step`.
  void await(std::uint64_t step, Call call);
  /// Arrives at the first step of a collective, waits for all ranks and checks that all are in the same collective.
  /// Returns false if a rank refused. All ranks see the same result, so they stay in step.
  bool arrive_and_check(const CollectiveSignature& mine);

  /// The detail of a rank that has arrived but cannot take part. It replaces all other details.
  static constexpr std::uint64_t kRefused = std::uint64_t{1} << 31;

 private:
  RankContext& context_;
  const Membership& members_;
  OrderFailure& failure_;
  Waiter& waiter_;
  std::uint64_t step_ = 0;
};

}  // namespace pleiad

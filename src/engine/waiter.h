// The one place that waits for other ranks: every wait has a deadline, ends when the caller interrupts it, and says
// whom it waits for and what that rank is doing.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/function_ref.h"
#include "engine/activity.h"
#include "engine/membership.h"
#include "engine/order_failure.h"
#include "engine/rank_context.h"
#include "pleiad/error.h"

namespace pleiad {

/// Another host was silent for `host_timeout` seconds. In a synchronous step all ranks get this error.
class SilenceError final : public TransportError {
 public:
  using TransportError::TransportError;
};

/// One wait.
struct Waiting {
  Call call;
  FunctionRef<bool()> ready;
  /// The ranks that the caller waits for, for error messages. If one of them is dead, the wait throws a
  /// TransportError.
  FunctionRef<std::vector<int>()> missing;
  /// If false, an OrderError of another call does not end this wait.
  bool ordered = true;
  /// Set to true if giving up leaves the ranks out of step. A timeout or an interrupt then ends the ordered calls of
  /// all ranks.
  bool in_step = false;
};

/// Any thread may wait.
class Waiter {
 public:
  Waiter(RankContext& context, const Membership& members, OrderFailure& failure, Activity& activity);

  /// Spins briefly, then sleeps until ready() returns true. Throws if an awaited rank died or its host is silent, on an
  /// order failure, if every rank waits, at the deadline, or when the caller interrupts.
  void wait(Event& event, const Waiting& waiting);
  /// The same wait for a condition that has no Event. sleep(nanoseconds) returns after at most that time, and earlier
  /// if something arrived.
  void wait_by(FunctionRef<void(std::int64_t)> sleep, const Waiting& waiting);
  /// Spins once while a peer finishes something short: pauses the core at first, then yields.
  void relax(int spins) const;

  /// Sets a function that every wait calls about twenty times a second; if it returns true, the wait throws
  /// Interrupted.
  void set_interrupt(std::function<bool()> interrupt) { interrupt_ = std::move(interrupt); }
  /// Throws if the caller or the session asks to end waits. whom() describes what is awaited, for the message.
  void check_interrupt(std::string_view where, FunctionRef<std::string()> whom) const;
  /// From now on, waits of this rank throw a StateError, so that operations of its other threads come to an end.
  void end_waits() { ending_.store(true); }

 private:
  class Monitor;

  void sleep_until_ready(FunctionRef<void(std::int64_t)> sleep, const Waiting& waiting);

  RankContext& context_;
  const Membership& members_;
  OrderFailure& failure_;
  Activity& activity_;
  const bool shares_cores_;
  std::atomic<bool> ending_{false};
  std::function<bool()> interrupt_;
};

}  // namespace pleiad

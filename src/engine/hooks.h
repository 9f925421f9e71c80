// Hook points: places in the code at which a test may stop a rank, kill it, or run another one.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace pleiad {

/// Named after the operation that the rank is in.
enum class Point : std::uint32_t { add, get, barrier, all_reduce, lock, clock, collective, settle, combine, make };
[[nodiscard]] std::string_view name_of(Point point);

/// Ends a rank that is a thread, when a test kills it. Not an Error: only the function that runs the thread may catch
/// it.
struct RankKilled {};

class Hooks {
 public:
  virtual ~Hooks() = default;
  /// Called when the thread of an inproc rank begins and ends.
  virtual void enter(int /*rank*/) {}
  virtual void leave(int /*rank*/) {}
  /// Called by `rank` at `point`, while holding the lock if the point is inside one. May throw RankKilled.
  virtual void at(int rank, Point point) = 0;
  /// Returns true if the ranks run one at a time in an order that the hooks choose. Ranks must then sleep only in
  /// pass().
  [[nodiscard]] virtual bool scheduled() const { return false; }
  /// Called when `rank` waits in vain: runs another rank. Returns the virtual time that has passed, in nanoseconds.
  virtual std::int64_t pass(int /*rank*/) { return 0; }
};

/// The hooks of one rank, if a test has set any.
class RankHooks {
 public:
  RankHooks(Hooks* hooks, int rank) : hooks_(hooks), rank_(rank) {}

  void at(Point point) {
    if (hooks_ == nullptr) return;
    try {
      hooks_->at(rank_, point);
    } catch (const RankKilled&) {
      kill();  // set before the stack unwinds, so that locks stay held
      throw;
    }
  }
  [[nodiscard]] bool scheduled() const { return hooks_ != nullptr && hooks_->scheduled(); }
  /// Runs another rank. Returns the virtual time that has passed, in nanoseconds. Requires scheduled().
  std::int64_t pass() { return hooks_->pass(rank_); }
  /// Marks this rank as killed by a test. Destructors must then leave shared state as it is.
  void kill() { killed_.store(true); }
  [[nodiscard]] bool killed() const { return killed_.load(std::memory_order_relaxed); }

 private:
  Hooks* hooks_;
  int rank_;
  std::atomic<bool> killed_{false};
};

/// A fault to inject: "2:add:3" kills rank 2 at its third arrival at the point `add`, as SIGKILL would.
struct Fault {
  int rank = -1;
  Point point = Point::add;
  std::uint64_t count = 1;

  /// Throws InvalidArgument if the text is malformed or the point is unknown.
  static Fault parse(std::string_view text);
};

/// Injects a fault: kills the process, or throws RankKilled if ranks are threads.
class FaultHooks final : public Hooks {
 public:
  FaultHooks(Fault fault, bool ranks_are_threads) : fault_(fault), threads_(ranks_are_threads) {}
  void at(int rank, Point point) override;

 private:
  Fault fault_;
  bool threads_;
  std::atomic<std::uint64_t> seen_{0};
};

}  // namespace pleiad

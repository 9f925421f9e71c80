// Places in the code at which a test may stop a rank, kill it, or let another one run.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace pleiad {

/// Named after what the rank is in the middle of.
enum class Point : std::uint32_t { add, get, barrier, all_reduce, lock, clock, collective, settle, combine, make };
[[nodiscard]] std::string_view name_of(Point point);

/// Thrown where a test ends a rank that is a thread. Not an Error: nobody may handle it but the one who runs the
/// thread.
struct RankKilled {};

class Hooks {
 public:
  virtual ~Hooks() = default;
  /// The thread of an inproc rank begins and ends.
  virtual void enter(int /*rank*/) {}
  virtual void leave(int /*rank*/) {}
  /// Called by `rank` at a point, with locks held where the name says so. May throw RankKilled.
  virtual void at(int rank, Point point) = 0;
  /// True where ranks run one at a time, in an order that the hooks choose: nobody may sleep but in pass().
  [[nodiscard]] virtual bool scheduled() const { return false; }
  /// `rank` waits and found nothing: lets another one run. Returns the virtual time that has passed, in nanoseconds.
  virtual std::int64_t pass(int /*rank*/) { return 0; }
};

/// "2:add:3" ends rank 2 when it comes to the point `add` for the third time, as SIGKILL would.
struct Fault {
  int rank = -1;
  Point point = Point::add;
  std::uint64_t count = 1;

  /// An InvalidArgument says what was expected.
  static Fault parse(std::string_view text);
};

/// Carries out a fault: ends the process, or throws RankKilled where ranks are threads.
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

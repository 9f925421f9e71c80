// A timer shared by all ranks: decides at which iteration of a loop a given time has passed, so that all ranks agree on
// the iteration.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/engine.h"

namespace pleiad {

/// Every rank calls poll() once per step, from one thread. The ranks may be at different steps; the clock of
/// one of them, the leader, decides. The committer of snapshots leads.
class SharedTimer {
 public:
  /// Collective. The engine must outlive this object.
  SharedTimer(Engine& engine, double every_seconds);
  ~SharedTimer();
  SharedTimer(const SharedTimer&) = delete;
  SharedTimer& operator=(const SharedTimer&) = delete;

  /// Returns true if the time has passed at this call. The n-th calls of all ranks return the same. On one host, a rank
  /// waits only if it is further ahead of the leader than the leader advances within the timer's interval. Between
  /// hosts, the ranks synchronise about once a second. A dead rank is a TransportError.
  [[nodiscard]] bool poll();
  /// Restarts the interval now. All ranks call it after the same poll(), followed by a barrier.
  void restart();

 private:
  struct Board;

  bool poll_on_board();
  bool poll_between_hosts();
  void schedule_meeting();
  void limit_lead();
  void check_alive();

  Engine& engine_;
  double every_seconds_;
  std::int64_t started_ns_;
  std::int64_t calls_ = 0;

  // Used if all ranks are on one host:
  std::shared_ptr<Segment> memory_;
  Board* board_ = nullptr;
  std::int64_t arranged_ = 0;  ///< leader: the call at which all ranks meet, or 0
  std::int64_t mark_ = 0;      ///< other ranks: a call that the leader has not reached yet
  std::int64_t mark_ns_;       ///< other ranks: the time at which this rank reached mark_

  // Used between hosts:
  std::int64_t next_look_ = 1;  ///< the next call that synchronises
  std::int64_t looked_ = 0;     ///< the last call that synchronised
  std::int64_t looked_ns_;
};

}  // namespace pleiad

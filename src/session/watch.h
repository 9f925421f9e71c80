// One rank's watch for all: which call of a loop is the one that comes after so many seconds.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/engine.h"

namespace pleiad {

/// Every rank calls strike once a step, by one thread. The ranks may be at different steps; the first rank's watch
/// counts.
class Watch {
 public:
  /// Collective. The engine outlives this.
  Watch(Engine& engine, double every_seconds);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// Whether this call is the one: the n-th calls of all ranks say the same. On one host nobody waits for anybody but
  /// who is further ahead of the first rank than it comes in the time of the watch; between hosts the ranks meet about
  /// once a second. A dead rank is a TransportError.
  [[nodiscard]] bool strike();
  /// The time begins now. All ranks call it after the same strike, and meet (a barrier) after that.
  void restart();

 private:
  struct Board;

  bool strike_on_board();
  bool strike_together();
  void arrange();
  void stay_near();
  void check_lives();

  Engine& engine_;
  double every_seconds_;
  std::int64_t started_ns_;
  std::int64_t calls_ = 0;

  // On one host.
  std::shared_ptr<Segment> memory_;
  Board* board_ = nullptr;
  std::int64_t arranged_ = 0;  ///< by the first rank: the call at which all meet, 0 for none
  std::int64_t mark_ = 0;      ///< by the others: a call that the first rank has not come to yet,
  std::int64_t mark_ns_;       ///< and when this one did

  // Between hosts.
  std::int64_t next_look_ = 1;  ///< a call
  std::int64_t looked_ = 0;     ///< the first rank's last
  std::int64_t looked_ns_;
};

}  // namespace pleiad

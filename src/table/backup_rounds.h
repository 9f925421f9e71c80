// Rounds that do not wait for the slowest workers. A round closes when all but `spare` workers have added to it and no
// worker is in the middle of an add to it. An add that arrives after its round has closed was computed on old values:
// it is dropped, and the worker continues with the newest values at its next get.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>

#include "engine/control.h"
#include "table/storage.h"
#include "table/unfinished_add.h"

namespace pleiad {

/// The counts of all workers, which are in shared memory on one host, or at the home of the clocks. A ClockSlot is used
/// as follows: adds_issued is the round that the worker is adding to or added to last, adds_done is the last round that
/// it has added to, and gets_done is the last closed round that it has seen.
struct BackupRounds {
  int workers = 0;
  int spare = 0;
  std::function<ClockSlot&(int worker)> slot;
  std::function<bool(int worker)> finished;
  std::atomic<std::uint64_t>* closed_rounds = nullptr;

  [[nodiscard]] std::uint64_t next_round(int worker) const {
    const ClockSlot& mine = slot(worker);
    return std::max(mine.adds_done.load(std::memory_order_relaxed), mine.gets_done.load(std::memory_order_relaxed)) + 1;
  }
  /// Returns the round that must be closed before `call` may start.
  [[nodiscard]] std::uint64_t needed(int worker, Call call) const {
    return call == Call::add ? next_round(worker) - 1 : slot(worker).adds_done.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool lacks(std::uint64_t round, int worker) const {
    const ClockSlot& other = slot(worker);
    return other.adds_done.load() < round && !(finished(worker) && !has_unfinished_add(other));
  }
  /// Closes as many rounds up to `round` as possible. Returns true if that one is closed. Sets `moved` if it closed any
  /// round.
  [[nodiscard]] bool close(std::uint64_t round, bool& moved) const {
    for (std::uint64_t now = closed_rounds->load(); now < round;) {
      int late = 0;
      for (int v = 0; v < workers; ++v) {
        if (!lacks(now + 1, v)) continue;
        ++late;
        if (slot(v).adds_issued.load() == now + 1) return false;  // in the middle of its add
      }
      if (late > spare) return false;
      if (closed_rounds->compare_exchange_strong(now, now + 1)) {
        ++now;
        moved = true;
      }
    }
    return true;
  }
  /// Called when it is the worker's turn. Returns true if its add must be dropped.
  [[nodiscard]] bool start(int worker, Call call) const {
    ClockSlot& mine = slot(worker);
    if (call == Call::get) {
      // From now on the worker reads the values of this round or of a later one.
      mine.gets_done.store(closed_rounds->load());
      return false;
    }
    // Stores first, then reads; the rank that closes the round does it in the opposite order.
    const std::uint64_t mine_to_add = next_round(worker);
    mine.adds_issued.store(mine_to_add);
    if (closed_rounds->load() < mine_to_add) return false;
    mine.adds_issued.store(mine.adds_done.load());
    return true;
  }
  void end(int worker, Call call) const {
    ClockSlot& mine = slot(worker);
    if (call == Call::add) mine.adds_done.store(mine.adds_issued.load(std::memory_order_relaxed));
  }
};

}  // namespace pleiad

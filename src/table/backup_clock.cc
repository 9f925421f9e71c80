#include "table/backup_clock.h"

#include <algorithm>

namespace pleiad {

BackupClock::BackupClock(TableContext& context, const Storage& storage, int spare)
    : context_(context), storage_(storage), spare_(spare) {}

std::uint64_t BackupClock::next_round() const {
  return std::max(mine().adds_done.load(std::memory_order_relaxed), mine().gets_done.load(std::memory_order_relaxed)) +
         1;
}

std::uint64_t BackupClock::needed(Call call) const {
  return call == Call::add ? next_round() - 1 : mine().adds_done.load(std::memory_order_relaxed);
}

bool BackupClock::lacks(std::uint64_t round, int worker) const {
  return storage_.clock(worker).adds_done.load() < round && !has_finished(context_, worker);
}

bool BackupClock::closed(std::uint64_t round) const {
  std::atomic<std::uint64_t>& last = storage_.head().closed_rounds;
  for (std::uint64_t now = last.load(); now < round;) {
    int late = 0;
    for (int v = 0; v < static_cast<int>(context_.roster.workers.size()); ++v) {
      if (!lacks(now + 1, v)) continue;
      ++late;
      if (storage_.clock(v).adds_issued.load() == now + 1) return false;  // in the middle of its add
    }
    if (late > spare_) return false;
    if (last.compare_exchange_strong(now, now + 1)) {
      ++now;
      storage_.head().clock.notify();
    }
  }
  return true;
}

std::uint64_t BackupClock::complete_rounds() const {
  const std::uint64_t now = storage_.head().closed_rounds.load();
  return closed(now + 1) ? now + 1 : now;
}

bool BackupClock::ready(Call call) const { return closed(needed(call)); }

Turn BackupClock::begin(Call call) {
  Turn turn;
  const std::uint64_t round = needed(call);
  const auto behind = [&](int worker) { return !closed(round) && lacks(round, worker); };
  turn.waited = wait_for_workers(context_, storage_.head().clock, call, true, behind);
  context_.engine->check_failure();
  context_.engine->at(Point::clock);
  if (call == Call::get) {
    // Whoever reads from now on sees this round, or a later one.
    mine().gets_done.store(storage_.head().closed_rounds.load());
    return turn;
  }
  // First said, then looked at: whoever closes the round looks the other way round.
  const std::uint64_t mine_to_add = next_round();
  mine().adds_issued.store(mine_to_add);
  if (storage_.head().closed_rounds.load() < mine_to_add) return turn;
  mine().adds_issued.store(mine().adds_done.load());
  storage_.head().dropped_adds.fetch_add(1);
  storage_.head().clock.notify();
  turn.dropped = true;
  return turn;
}

void BackupClock::end(Call call) {
  if (call != Call::add) return;
  mine().adds_done.store(mine().adds_issued.load(std::memory_order_relaxed));
  storage_.head().clock.notify();
}

}  // namespace pleiad

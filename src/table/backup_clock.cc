#include "table/backup_clock.h"

namespace pleiad {

BackupClock::BackupClock(TableContext& context, const Storage& storage, int spare)
    : context_(context),
      storage_(storage),
      rounds_{.workers = static_cast<int>(context.roster.workers.size()),
              .spare = spare,
              .slot = [&storage](int worker) -> ClockSlot& { return storage.clock(worker); },
              .finished = [&context](int worker) { return has_finished(context, worker); },
              .closed_rounds = &storage.head().closed_rounds} {}

bool BackupClock::closed(std::uint64_t round) const {
  bool moved = false;
  const bool is = rounds_.close(round, moved);
  if (moved) storage_.head().clock.notify();
  return is;
}

std::uint64_t BackupClock::complete_rounds() const {
  const std::uint64_t now = storage_.head().closed_rounds.load();
  return closed(now + 1) ? now + 1 : now;
}

bool BackupClock::ready(Call call) const { return closed(rounds_.needed(context_.roster.worker, call)); }

Turn BackupClock::begin(Call call) {
  Turn turn;
  const int me = context_.roster.worker;
  const std::uint64_t round = rounds_.needed(me, call);
  const auto behind = [&](int worker) { return !closed(round) && rounds_.lacks(round, worker); };
  // A worker that arrives between two checks may be counted as behind in neither, so the round may still be open.
  do {
    turn.waited += wait_for_workers(context_, storage_.head().clock, call, true, behind);
  } while (!closed(round));
  context_.engine->order_failure().check();
  context_.engine->hooks().at(Point::clock);
  turn.dropped = rounds_.start(me, call);
  if (!turn.dropped) return turn;
  storage_.head().dropped_adds.fetch_add(1);
  storage_.head().clock.notify();
  return turn;
}

void BackupClock::end(Call call) {
  rounds_.end(context_.roster.worker, call);
  if (call == Call::add) storage_.head().clock.notify();
}

}  // namespace pleiad

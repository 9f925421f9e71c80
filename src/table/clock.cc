#include "table/clock.h"

#include "core/process.h"
#include "table/unfinished_add.h"

namespace pleiad {

bool must_wait(Call call, const ClockRule& rule, const ClockSlot& mine, const ClockSlot& other) {
  if (rule.kind == ClockKind::ssp) {
    return call == Call::get &&
           static_cast<std::int64_t>(other.ticks.load()) <
               static_cast<std::int64_t>(mine.ticks.load(std::memory_order_relaxed)) - rule.staleness;
  }
  if (call == Call::get) return other.adds_done.load() < mine.adds_issued.load(std::memory_order_relaxed);
  return other.gets_done.load() < mine.gets_done.load(std::memory_order_relaxed) ||
         (rule.rounds && other.adds_done.load() < mine.adds_done.load(std::memory_order_relaxed));
}

void count(ClockSlot& slot, Call call) {
  (call == Call::add ? slot.adds_done : call == Call::tick ? slot.ticks : slot.gets_done).fetch_add(1);
}

bool has_finished(const TableContext& context, int worker) {
  return context.engine->members().liveness(context.roster.workers[static_cast<std::size_t>(worker)]) == Liveness::left;
}

std::int64_t wait_for_workers(TableContext& context, Event& event, Call call, bool in_step,
                              FunctionRef<bool(int worker)> behind) {
  const auto ready = [&] {
    for (int v = 0; v < static_cast<int>(context.roster.workers.size()); ++v) {
      if (behind(v)) return false;
    }
    return true;
  };
  if (ready()) return 0;
  const std::int64_t start = now_ns();
  const auto missing = [&] {
    std::vector<int> ranks;
    for (int v = 0; v < static_cast<int>(context.roster.workers.size()); ++v) {
      if (behind(v)) ranks.push_back(context.roster.workers[static_cast<std::size_t>(v)]);
    }
    return ranks;
  };
  context.engine->waiter().wait(event, {.call = call, .ready = ready, .missing = missing, .in_step = in_step});
  return now_ns() - start;
}

LocalClock::LocalClock(TableContext& context, const Storage& storage, std::uint32_t table, const ClockRule& rule)
    : context_(context), storage_(storage), table_(table), rule_(rule) {}

bool LocalClock::behind(Call call, int worker) const {
  return must_wait(call, rule_, mine(), storage_.clock(worker)) &&
         !(has_finished(context_, worker) && !has_unfinished_add(storage_.clock(worker)));
}

bool LocalClock::ready(Call call) const {
  for (int v = 0; v < static_cast<int>(context_.roster.workers.size()); ++v) {
    if (behind(call, v)) return false;
  }
  return true;
}

Turn LocalClock::begin(Call call) {
  const bool sync = rule_.kind == ClockKind::sync;
  if (sync) context_.ledger.record(call, table_);  // in ssp, workers need not make the same calls
  Turn turn;
  turn.waited =
      wait_for_workers(context_, storage_.head().clock, call, sync, [&](int worker) { return behind(call, worker); });
  // The wait may also end because the others have shut down after an error that affects this worker too.
  context_.engine->order_failure().check();
  context_.engine->hooks().at(Point::clock);
  if (sync && call == Call::add) mine().adds_issued.fetch_add(1);
  return turn;
}

void LocalClock::end(Call call) {
  count(mine(), call);
  if (rule_.kind == ClockKind::sync || call == Call::tick) storage_.head().clock.notify();
}

}  // namespace pleiad

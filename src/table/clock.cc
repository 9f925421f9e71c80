#include "table/clock.h"

#include "core/process.h"

namespace pleiad {

LocalClock::LocalClock(TableContext& context, const Storage& storage, std::uint32_t table, bool rounds)
    : context_(context), storage_(storage), table_(table), rounds_(rounds) {}

bool must_wait(Call call, bool rounds, const ClockSlot& mine, const ClockSlot& other) {
  if (call == Call::get) return other.adds_done.load() < mine.adds_issued.load(std::memory_order_relaxed);
  return other.gets_done.load() < mine.gets_done.load(std::memory_order_relaxed) ||
         (rounds && other.adds_done.load() < mine.adds_done.load(std::memory_order_relaxed));
}

bool LocalClock::behind(Call call, int worker) const {
  return must_wait(call, rounds_, mine(), storage_.clock(worker)) &&
         context_.engine->life(context_.roster.workers[static_cast<std::size_t>(worker)]) != Life::finished;
}

bool LocalClock::ready(Call call) const {
  for (int v = 0; v < static_cast<int>(context_.roster.workers.size()); ++v) {
    if (behind(call, v)) return false;
  }
  return true;
}

std::int64_t LocalClock::begin(Call call) {
  context_.ledger.record(call, table_);
  std::int64_t waited = 0;
  if (!ready(call)) {
    const std::int64_t start = now_ns();
    const auto missing = [&] {
      std::vector<int> ranks;
      for (int v = 0; v < static_cast<int>(context_.roster.workers.size()); ++v) {
        if (behind(call, v)) ranks.push_back(context_.roster.workers[static_cast<std::size_t>(v)]);
      }
      return ranks;
    };
    context_.engine->wait(storage_.head().clock,
                          {.call = call, .ready = [&] { return ready(call); }, .missing = missing, .in_step = true});
    waited = now_ns() - start;
  }
  // Ready may mean that the others have shut down, after a mistake that concerns this worker too.
  context_.engine->check_failure();
  context_.engine->at(Point::clock);
  if (call == Call::add) mine().adds_issued.fetch_add(1);
  return waited;
}

void LocalClock::end(Call call) {
  ClockSlot& me = mine();
  (call == Call::add ? me.adds_done : me.gets_done).fetch_add(1);
  storage_.head().clock.notify();
}

}  // namespace pleiad

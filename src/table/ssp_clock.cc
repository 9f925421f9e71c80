#include "table/ssp_clock.h"

namespace pleiad {

SspClock::SspClock(TableContext& context, const Storage& storage, std::uint32_t table, int staleness)
    : context_(context), storage_(storage), table_(table), rule_{.kind = ClockKind::ssp, .staleness = staleness} {}

bool SspClock::behind(Call call, int worker) const {
  return must_wait(call, rule_, mine(), storage_.clock(worker)) && !has_finished(context_, worker);
}

bool SspClock::ready(Call call) const {
  if (call != Call::get) return true;
  return late_workers(context_, [&](int worker) { return behind(call, worker); }).empty();
}

Turn SspClock::begin(Call call) {
  Turn turn;
  if (call == Call::get) {
    turn.waited = wait_for_workers(context_, storage_.head().clock, call, false,
                                   [&](int worker) { return behind(call, worker); });
  }
  context_.engine->at(Point::clock);
  return turn;
}

void SspClock::end(Call call) {
  if (call != Call::tick) return;
  mine().ticks.fetch_add(1);
  storage_.head().clock.notify();
}

}  // namespace pleiad

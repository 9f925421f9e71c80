// A clock that lets workers run ahead of each other, by ticks: get(w) starts when every living worker has made at least
// ticks(w) - staleness. It then sees all that any worker added before its tick number ticks(w) - staleness. Adds do not
// wait. A worker that has shut down counts as infinitely far.
#pragma once

#include "table/clock.h"

namespace pleiad {

class SspClock final : public Clock {
 public:
  SspClock(TableContext& context, const Storage& storage, std::uint32_t table, int staleness);

  Turn begin(Call call) override;
  void end(Call call) override;
  [[nodiscard]] bool ready(Call call) const override;

 private:
  [[nodiscard]] ClockSlot& mine() const { return storage_.clock(context_.roster.worker); }
  [[nodiscard]] bool behind(Call call, int worker) const;

  TableContext& context_;
  const Storage& storage_;
  std::uint32_t table_;
  ClockRule rule_;
};

}  // namespace pleiad

// When a call to a synchronous table may start. It counts operations:
//   get(w) starts when every living worker v has adds_done(v) >= adds_issued(w),
//   add(w) starts when every living worker v has gets_done(v) >= gets_done(w),
// and in rounds an add also waits until the round before is complete. A worker that has shut down counts as infinitely
// far.
#pragma once

#include <vector>

#include "engine/engine.h"
#include "table/context.h"
#include "table/storage.h"

namespace pleiad {

class Clock {
 public:
  Clock(TableContext& context, const Storage& storage, std::uint32_t table, bool rounds);

  /// Writes the call down and waits for its turn. Returns the nanoseconds it waited.
  std::int64_t begin(Call call);
  /// The call is complete.
  void end(Call call);
  /// True where begin() would not wait.
  [[nodiscard]] bool ready(Call call) const;
  /// The round that this worker's next add belongs to, counted from one.
  [[nodiscard]] std::uint64_t round() const { return mine().adds_done.load(std::memory_order_relaxed) + 1; }

 private:
  [[nodiscard]] ClockSlot& mine() const { return storage_.clock(context_.roster.worker); }
  [[nodiscard]] bool behind(Call call, int worker) const;

  TableContext& context_;
  const Storage& storage_;
  std::uint32_t table_;
  bool rounds_;
};

}  // namespace pleiad

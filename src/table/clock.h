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
  virtual ~Clock() = default;
  /// Writes the call down and waits for its turn. Returns the nanoseconds it waited.
  virtual std::int64_t begin(Call call) = 0;
  /// The call is complete.
  virtual void end(Call call) = 0;
  /// True where begin() would surely not wait.
  [[nodiscard]] virtual bool ready(Call call) const = 0;
  /// The round that this worker's next add belongs to, counted from one.
  [[nodiscard]] virtual std::uint64_t round() const = 0;
};

/// Whether a worker that has `mine` must wait for one that has `other` before it may start `call`.
[[nodiscard]] bool must_wait(Call call, bool rounds, const ClockSlot& mine, const ClockSlot& other);

/// Where all workers are on one host: in the table's own segment.
class LocalClock final : public Clock {
 public:
  LocalClock(TableContext& context, const Storage& storage, std::uint32_t table, bool rounds);

  std::int64_t begin(Call call) override;
  void end(Call call) override;
  [[nodiscard]] bool ready(Call call) const override;
  [[nodiscard]] std::uint64_t round() const override { return mine().adds_done.load(std::memory_order_relaxed) + 1; }

 private:
  [[nodiscard]] ClockSlot& mine() const { return storage_.clock(context_.roster.worker); }
  [[nodiscard]] bool behind(Call call, int worker) const;

  TableContext& context_;
  const Storage& storage_;
  std::uint32_t table_;
  bool rounds_;
};

}  // namespace pleiad

// When a call to a table with a clock may start.
#pragma once

#include <cstdint>
#include <vector>

#include "core/function_ref.h"
#include "engine/engine.h"
#include "table/context.h"
#include "table/spec.h"
#include "table/storage.h"

namespace pleiad {

/// What a worker hears when its turn has come.
struct Turn {
  std::int64_t waited = 0;  ///< nanoseconds
  bool dropped = false;     ///< an add came too late for its round: it is not carried out
};

class Clock {
 public:
  virtual ~Clock() = default;
  /// Writes the call down and waits for its turn.
  virtual Turn begin(Call call) = 0;
  /// The call is complete.
  virtual void end(Call call) = 0;
  /// True where begin() would surely not wait.
  [[nodiscard]] virtual bool ready(Call call) const = 0;
  /// apply = round: the round that this worker's add belongs to, counted from one.
  [[nodiscard]] virtual std::uint64_t round() const { return 0; }
  /// How many rounds are complete, as far as this worker knows.
  [[nodiscard]] virtual std::uint64_t complete_rounds() const { return round() - 1; }
  /// Backup workers on several hosts: the last closed round that this worker was told of. The shards need to know.
  [[nodiscard]] virtual std::uint64_t closed() const { return 0; }
  /// Backup workers, while nobody is in a call: closes the last round if enough have added to it, though none has asked
  /// for it since. Returns how many are closed.
  [[nodiscard]] virtual std::uint64_t settle() const { return 0; }
};

/// Whether a worker that has `mine` must wait for one that has `other` before it may start `call`.
[[nodiscard]] bool must_wait(Call call, const ClockRule& rule, const ClockSlot& mine, const ClockSlot& other);

/// A worker has completed a call.
void count(ClockSlot& slot, Call call);

/// A worker that has shut down counts as infinitely far.
[[nodiscard]] bool has_finished(const TableContext& context, int worker);
/// Sleeps until there is no worker for whom `behind` is true. Returns the nanoseconds.
std::int64_t wait_for_workers(TableContext& context, Event& event, Call call, bool in_step,
                              FunctionRef<bool(int worker)> behind);

/// Where all workers are on one host. A synchronous table counts operations:
///   get(w) starts when every living worker v has adds_done(v) >= adds_issued(w),
///   add(w) starts when every living worker v has gets_done(v) >= gets_done(w),
/// and in rounds an add also waits until the round before is complete. A stale-bounded one (ssp) counts ticks: get(w)
/// starts when every living worker has made at least ticks(w) - staleness, and sees all that any worker added before
/// its tick of that number; adds do not wait.
class LocalClock final : public Clock {
 public:
  LocalClock(TableContext& context, const Storage& storage, std::uint32_t table, const ClockRule& rule);

  Turn begin(Call call) override;
  void end(Call call) override;
  [[nodiscard]] bool ready(Call call) const override;
  [[nodiscard]] std::uint64_t round() const override { return mine().adds_done.load(std::memory_order_relaxed) + 1; }

 private:
  [[nodiscard]] ClockSlot& mine() const { return storage_.clock(context_.roster.worker); }
  [[nodiscard]] bool behind(Call call, int worker) const;

  TableContext& context_;
  const Storage& storage_;
  std::uint32_t table_;
  ClockRule rule_;
};

}  // namespace pleiad

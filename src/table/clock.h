// Clocks: when a call to a table with clock sync or ssp may start.
#pragma once

#include <cstdint>
#include <vector>

#include "core/function_ref.h"
#include "engine/engine.h"
#include "table/context.h"
#include "table/spec.h"
#include "table/storage.h"

namespace pleiad {

/// The result of waiting for the start of a call.
struct Turn {
  std::int64_t waited = 0;  ///< nanoseconds
  bool dropped = false;     ///< the add is too late for its round and must not be applied
};

class Clock {
 public:
  virtual ~Clock() = default;
  /// Records the call and waits until it may start.
  virtual Turn begin(Call call) = 0;
  /// Records that the call is complete.
  virtual void end(Call call) = 0;
  /// Returns true if begin() is certain not to wait.
  [[nodiscard]] virtual bool ready(Call call) const = 0;
  /// apply = round: returns the round that this worker's add belongs to, starting at one.
  [[nodiscard]] virtual std::uint64_t round() const { return 0; }
  /// Returns the number of complete rounds that this worker knows of.
  [[nodiscard]] virtual std::uint64_t complete_rounds() const { return round() - 1; }
  /// Backup workers on several hosts: returns the last closed round that this worker knows, which the shards need
  /// to know.
  [[nodiscard]] virtual std::uint64_t closed() const { return 0; }
  /// Backup workers, while no worker is in a call: closes the last round if enough workers have added to it, even if no
  /// worker has asked for it since. Returns the number of closed rounds.
  [[nodiscard]] virtual std::uint64_t settle() const { return 0; }
};

/// Returns whether a worker with the counts `mine` must wait for one with the counts `other` before it may start
/// `call`.
[[nodiscard]] bool must_wait(Call call, const ClockRule& rule, const ClockSlot& mine, const ClockSlot& other);

/// Counts a completed call of a worker.
void count(ClockSlot& slot, Call call);

/// Returns true if the worker has shut down; it then counts as infinitely far ahead.
[[nodiscard]] bool has_finished(const TableContext& context, int worker);
/// Sleeps until `behind` is false for all workers. Returns the nanoseconds spent waiting.
std::int64_t wait_for_workers(TableContext& context, Event& event, Call call, bool in_step,
                              FunctionRef<bool(int worker)> behind);

/// The clock for workers that are all on one host. A synchronous table counts operations:
///   get(w) starts when every living worker v has adds_done(v) >= adds_issued(w),
///   add(w) starts when every living worker v has gets_done(v) >= gets_done(w),
/// and with rounds an add also waits until the previous round is complete. A table with bounded staleness (ssp) counts
/// ticks: get(w) starts when every living worker has made at least ticks(w) - staleness ticks. The get then sees all
/// that any worker added before its tick of that number. Adds do not wait.
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

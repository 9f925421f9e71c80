// The worker side of a table: checks arguments, obeys the clock, and passes the call to the shards that hold the
// values.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/problem.h"
#include "pleiad/table.h"
#include "table/clock.h"
#include "table/context.h"
#include "table/shard_map.h"
#include "table/spec.h"

namespace pleiad {

class Table : public std::enable_shared_from_this<Table> {
 public:
  /// Collective, after the ranks have agreed on the spec.
  Table(std::shared_ptr<TableContext> context, std::uint32_t id, TableSpec spec, ConstView initial);

  [[nodiscard]] const TableSpec& spec() const { return spec_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::uint32_t id() const { return id_; }
  [[nodiscard]] const TableContext& context() const { return *context_; }
  [[nodiscard]] TableStats stats() const;

  /// The number of calls that this rank has made and, with backup workers, of closed rounds. Valid while no rank is in
  /// a call.
  struct ClockCounts {
    std::uint64_t adds = 0;
    std::uint64_t gets = 0;
    std::uint64_t ticks = 0;
    std::uint64_t closed = 0;
  };
  [[nodiscard]] ClockCounts clock_counts() const {
    return {.adds = added_.calls.load(),
            .gets = got_.calls.load(),
            .ticks = ticks_.load(),
            .closed = clock_ ? clock_->settle() : 0};
  }
  /// Backup workers: declares that this many rounds are closed.
  void close_rounds(std::uint64_t closed) { shard_map_->close_rounds(closed); }
  /// Collective: releases the table's memory on every rank now. Errors of earlier calls are thrown on all ranks, and in
  /// that case the table stays open. Later calls throw a StateError.
  void close();
  /// Releases the memory. Called on every rank after all have agreed that no rank uses the table any more.
  void release();
  [[nodiscard]] bool closed() const { return closed_.load(); }
  /// Returns an owner of the memory that map() returned, also beyond close().
  [[nodiscard]] std::shared_ptr<void> mapped_memory() const { return shard_map_->memory(); }
  void each_local_shard(FunctionRef<void(Shard&, ShardRange)> work) const { shard_map_->each_local_shard(work); }

  void get(const Selection& selection, const View& out);
  void add(const Selection& selection, const ConstView& delta, const AddOptions& options);
  void add_get(const ConstView& delta, const View& out, const AddOptions& options);
  void exchange(View values, View last, const AddOptions& options);
  void tick();
  [[nodiscard]] std::uint64_t rounds() const;
  void add_parts(std::span<const ArrayPart> delta, const View& out, const AddOptions& options,
                 std::span<const ElementRange> kept = {});
  void step(std::span<const ArrayPart> delta, const AddOptions& options, std::span<const ElementRange> kept);
  void set(const ConstView& values, int root);
  [[nodiscard]] View map();
  // The following functions are for tables with rows, in rows.cc.
  [[nodiscard]] ChangedRows get_changed();
  [[nodiscard]] ChangedRows get_all();
  [[nodiscard]] std::int64_t rows();
  std::int64_t evict();
  void set_rows(std::span<const RowId> ids, const ConstView& values, int root);
  [[nodiscard]] bool is_here(RowId id) const { return shard_map_->is_here(id); }
  [[nodiscard]] Pending get_async(const Selection& selection, const View& out);
  [[nodiscard]] Pending add_async(const Selection& selection, const ConstView& delta, const AddOptions& options);
  // The following functions save and load checkpoints, in state.cc.
  [[nodiscard]] ArrayTable::RuleState rule_state() const;
  void save_to(View values, std::span<const View> arrays, std::span<double> numbers);
  void load_from(const ConstView& values, std::span<const ConstView> arrays, std::span<const double> numbers);

 private:
  class ClockedCall;
  friend class TableUse;
  /// Throws the error of an earlier call on this table if it has not been thrown yet.
  void raise_earlier() const { context_->failures.raise(id_); }
  /// After a failed call on a synchronous table, this worker is out of step with the others, so every later call
  /// throws.
  void raise_if_broken() const;
  void set_broken();
  /// Collective. Throws if the ranks make `call` on different tables.
  void check_same_table(std::string_view call);
  [[nodiscard]] ChangedRows take_rows(std::string_view call, std::vector<std::vector<std::uint64_t>>& seen);
  void check_state(std::string_view call, std::size_t arrays, std::size_t numbers) const;

  void check_not_in_rule(std::string_view call) const;
  void check(std::string_view call, const Selection& selection, const ConstView& numbers) const;
  void check_add(std::string_view call, const Selection& selection, const ConstView& delta) const;
  void check_finite(std::string_view call, const ConstView& delta) const;
  void check_parts(std::string_view call, std::span<const ArrayPart> parts) const;
  void check_kept(std::string_view call, std::span<const ElementRange> kept) const;
  [[nodiscard]] std::string where(std::string_view call) const;
  [[nodiscard]] std::int64_t bytes_of(const Selection& selection) const;

  /// The start of a set: waits for all ranks and their pending operations. An error on one rank is thrown on all ranks.
  void begin_set(const Selection& selection, const ConstView& values, int root);
  [[nodiscard]] bool can_start_now(Call call) const;
  /// Orders this worker's pending adds before its later calls: on other hosts they may still be in progress.
  void drain_background();
  void submit(std::string_view call, const std::shared_ptr<Operation>& operation);
  /// Runs and counts one call when the clock permits it.
  void run_call(Call call, std::int64_t bytes, FunctionRef<void()> work);
  /// Runs an add and a get of the whole table, in one pass if no clock separates the two.
  void run_both(std::string_view name, const Rates& rates, Shard::DeltaOf delta_of, Shard::Take take, bool gets = true,
                std::span<const ElementRange> kept = {});
  /// Returns this rank's identity for the shards.
  [[nodiscard]] Requester me() const;
  /// Allocates a buffer for the delta of one stripe.
  [[nodiscard]] std::unique_ptr<double[]> stripe_buffer() const;
  // Run one call whose arguments have been checked. `guard` runs the write to the caller's buffer, or skips it if the
  // buffer has been abandoned.
  void run_get(const Selection& selection, FunctionRef<void(FunctionRef<void()>)> guard, void* out);
  void run_add(const Selection& selection, const void* delta, const Rates& rates);

  std::shared_ptr<TableContext> context_;
  Engine& engine_;
  std::uint32_t id_;
  TableSpec spec_;
  std::string name_;
  UpdaterOptions updater_options_;
  std::unique_ptr<ShardMap> shard_map_;  ///< null after the table was closed
  Shard* shard_;                         ///< the shard if this host holds the whole table, otherwise null
  std::unique_ptr<Clock> clock_;
  std::int64_t width_;
  std::mutex seen_mutex_;
  std::vector<std::vector<std::uint64_t>> seen_;  ///< state of get_changed; guarded by seen_mutex_

  struct Counters {
    std::atomic<std::uint64_t> calls{0}, bytes{0}, ns{0};
  };
  class Timed;
  Counters added_;
  Counters got_;
  std::atomic<std::uint64_t> waited_ns_{0};
  std::atomic<std::uint64_t> ticks_{0};
  std::atomic<std::uint32_t> users_{0};  ///< number of calls in progress
  std::atomic<bool> closed_{false};
  std::atomic<bool> is_broken_{false};
  mutable std::mutex broken_mutex_;
  std::optional<Problem> broken_;  // guarded by broken_mutex_
};

/// Marks one API call as in progress; close() waits for its end. Throws a StateError if the table was closed.
class TableUse {
 public:
  explicit TableUse(Table& table) : table_(table) {
    table_.users_.fetch_add(1);
    if (table_.closed_.load()) refuse();
  }
  ~TableUse() { table_.users_.fetch_sub(1); }
  TableUse(const TableUse&) = delete;
  TableUse& operator=(const TableUse&) = delete;
  Table* operator->() const { return &table_; }

 private:
  [[noreturn]] void refuse() const;

  Table& table_;
};

}  // namespace pleiad

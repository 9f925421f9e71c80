// The worker half of a table: arguments checked, clock obeyed, the call handed to whoever holds the values.
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
#include "table/pieces.h"
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

  /// How many calls this rank has made, and with backup workers how many rounds are closed. While nobody is in a call.
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
  /// Backup workers: so many rounds are closed.
  void close_rounds(std::uint64_t closed) { pieces_->close_rounds(closed); }
  /// Collective: releases the table's memory on every rank, now. Errors of earlier calls are thrown on all ranks, and
  /// then the table stays open. Calls after this one throw a StateError.
  void close();
  /// Called on every rank once all have agreed that nobody uses the table any more.
  void release();
  [[nodiscard]] bool closed() const { return closed_.load(); }
  /// Keeps the memory that map() returned, past close() too.
  [[nodiscard]] std::shared_ptr<void> mapped_memory() const { return pieces_->memory(); }
  void each_shard_here(FunctionRef<void(Shard&, ShardRange)> work) const { pieces_->each_here(work); }

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
  // rows.cc: of tables that have rows.
  [[nodiscard]] ChangedRows get_changed();
  [[nodiscard]] ChangedRows get_all();
  [[nodiscard]] std::int64_t rows();
  std::int64_t evict();
  void set_rows(std::span<const RowId> ids, const ConstView& values, int root);
  [[nodiscard]] bool is_here(RowId id) const { return pieces_->is_here(id); }
  [[nodiscard]] Pending get_async(const Selection& selection, const View& out);
  [[nodiscard]] Pending add_async(const Selection& selection, const ConstView& delta, const AddOptions& options);
  // state.cc: what a checkpoint holds.
  [[nodiscard]] ArrayTable::RuleState rule_state() const;
  void save_to(View values, std::span<const View> arrays, std::span<double> numbers);
  void load_from(const ConstView& values, std::span<const ConstView> arrays, std::span<const double> numbers);

 private:
  class ClockedCall;
  friend class TableUse;
  /// Throws the error of an earlier call on this table that nobody has received.
  void raise_earlier() const { context_->failures.raise(id_); }
  /// A synchronous table after a call that failed: this worker is out of step, so every later call throws.
  void raise_if_broken() const;
  void set_broken();
  /// Throws where the ranks are in `call` for different tables. Collective.
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

  /// How a set begins: all ranks are there, with nothing under way; what is wrong on one of them all of them throw.
  void begin_set(const Selection& selection, const ConstView& values, int root);
  [[nodiscard]] bool nothing_to_wait_for(Call call) const;
  /// Own adds come before own later calls: on other hosts what was started may still be under way.
  void finish_started();
  void submit(std::string_view call, const std::shared_ptr<Operation>& operation);
  /// One call, counted, when the clock lets it.
  void carry_out(Call call, std::int64_t bytes, FunctionRef<void()> work);
  /// An add and a get of the whole table, in one pass where no clock stands between the two.
  void run_both(std::string_view name, const Rates& rates, Shard::DeltaOf delta_of, Shard::Take take, bool gets = true,
                std::span<const ElementRange> kept = {});
  /// This rank, as the shard must know it.
  [[nodiscard]] Asker me() const;
  /// Memory for the delta of one stripe.
  [[nodiscard]] std::unique_ptr<double[]> room_for_stripe() const;
  // One whole call, arguments checked. `guard` runs the write to the caller's buffer, or not if that is gone.
  void run_get(const Selection& selection, FunctionRef<void(FunctionRef<void()>)> guard, void* out);
  void run_add(const Selection& selection, const void* delta, const Rates& rates);

  std::shared_ptr<TableContext> context_;
  Engine& engine_;
  std::uint32_t id_;
  TableSpec spec_;
  std::string name_;
  UpdaterOptions updater_options_;
  std::unique_ptr<Pieces> pieces_;  ///< null once the table was closed
  Shard* shard_;                    ///< where this host holds all of it
  std::unique_ptr<Clock> clock_;
  std::int64_t width_;
  std::mutex seen_mutex_;
  std::vector<std::vector<std::uint64_t>> seen_;  ///< by get_changed; guarded by seen_mutex_

  struct Counters {
    std::atomic<std::uint64_t> calls{0}, bytes{0}, ns{0};
  };
  class Timed;
  Counters added_;
  Counters got_;
  std::atomic<std::uint64_t> waited_ns_{0};
  std::atomic<std::uint64_t> ticks_{0};
  std::atomic<std::uint32_t> users_{0};  ///< calls in progress
  std::atomic<bool> closed_{false};
  std::atomic<bool> is_broken_{false};
  mutable std::mutex broken_mutex_;
  std::optional<Problem> broken_;  // guarded by broken_mutex_
};

/// One call of the API in progress: close() waits for its end. Throws a StateError where the table was closed.
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

// The server half of a table: the values that one host holds, their stripes and locks, the rule, and rounds. It knows
// no clock and no caller's buffers: whoever asks says for which worker, so any rank of the host can carry out a call of
// a worker that is elsewhere. Units and rows are counted from the shard's first.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/function_ref.h"
#include "engine/engine.h"
#include "pleiad/error.h"
#include "table/sparse_rows.h"
#include "table/spec.h"
#include "table/storage.h"
#include "updater/updater.h"

namespace pleiad {

/// For whom a shard does something.
struct Asker {
  int worker = 0;           ///< its number among the workers; 0 for a rank that is none
  std::uint64_t round = 0;  ///< apply = round: the round that an add belongs to, counted from one
};

/// Stripes [first, end) of a shard.
struct StripeRange {
  std::int64_t first = 0;
  std::int64_t end = 0;
};

/// Calls are carried out by the calling thread, stripe by stripe, each under its lock. Any thread may call. An error
/// leaves some stripes changed and others not. Arguments were checked before.
class Shard {
 public:
  /// Where the change of `count` elements from element `first` on is to be found.
  using DeltaOf = FunctionRef<const char*(std::int64_t first, std::size_t count)>;
  /// Takes the values of `count` elements from element `first` on, which nobody changes meanwhile.
  using Take = FunctionRef<void(const char* values, std::int64_t first, std::size_t count)>;

  /// Collective: the part of a table that this host holds, all zeros. `range` counts rows of a matrix and elements of
  /// an array; of a sparse table its end is how many rows this host may hold, 0 for as many as fit.
  Shard(Engine& engine, const TableSpec& spec, std::string name, int workers, ShardRange range);

  /// `kept`: elements that the rule does not see, in ascending order. Not where adds wait for their round.
  void add(const Asker& asker, StripeRange stripes, const Rates& rates, DeltaOf delta_of,
           std::span<const ElementRange> kept = {});
  void get(StripeRange stripes, Take take);
  /// Changes and takes each stripe under one lock. Not where adds wait for their round.
  void add_get(const Asker& asker, StripeRange stripes, const Rates& rates, DeltaOf delta_of, Take take,
               std::span<const ElementRange> kept = {});
  /// Deltas of a row named twice are summed first. Of a sparse table, rows that are not there are made: all of them
  /// before the first is changed.
  void add_rows(const Asker& asker, std::span<const RowId> ids, const char* delta, const Rates& rates);
  void get_rows(std::span<const RowId> ids, char* out);

  /// Takes the rows of `stripes` that have changed since `seen`, which then says so of them: 0 for a stripe that was
  /// never looked at. One entry a stripe. Where changes are not tracked only 0 is right.
  void take_changed(StripeRange stripes, std::span<std::uint64_t> seen,
                    FunctionRef<void(RowId id, const char* row)> take);
  /// The stripes that hold something.
  [[nodiscard]] StripeRange in_use() const;

  // Of a sparse table:
  [[nodiscard]] SparseRows* sparse() const { return rows_of_.get(); }
  /// Drops the rows that may go. Returns how many went.
  std::int64_t evict();
  /// A row's values, past the rule, whose state for it starts anew. The row is made if it is not there.
  void put_row(RowId id, const void* values);
  /// The unit of a row, which is made if it is not there.
  [[nodiscard]] std::int64_t unit_for(RowId id);

  /// Calls look(stripe) with each stripe's lock held, what waited for a complete round applied.
  void visit(StripeRange stripes, FunctionRef<void(std::int64_t stripe)> look);

  /// Backup workers on several hosts: the rounds up to this one are closed.
  void close_rounds(std::uint64_t closed) const;

  /// Before anybody else can see the table: puts `values` at element `first`; start() comes after the last of them.
  void set(std::int64_t first, const void* values, std::size_t count);
  void start();

  [[nodiscard]] StripeRange all() const { return {0, geometry_.stripes()}; }
  [[nodiscard]] const Geometry& geometry() const { return geometry_; }
  [[nodiscard]] const Storage& storage() const { return storage_; }
  [[nodiscard]] bool rounds() const { return rounds_; }

 private:
  void change_distinct_rows(const Asker& asker, std::span<const RowId> ids, const char* delta, const Rates& rates);
  void change_sparse_rows(const Asker& asker, std::span<const RowId> ids, const char* delta, const Rates& rates);
  void get_sparse_rows(std::span<const RowId> ids, char* out);
  /// Copies a unit's values out where holds() says so in the same look at them; else false.
  template <class Holds>
  bool read_unit(std::int64_t unit, char* out, Holds&& holds);
  void change_stripe(const Asker& asker, std::int64_t index, const Rates& rates, DeltaOf delta_of,
                     std::span<const ElementRange> kept);
  void change_units(const Asker& asker, Stripe& stripe, std::int64_t first, std::int64_t end, const char* delta,
                    const Rates& rates, std::span<const ElementRange> kept = {});
  /// Applies the rule to a unit without the kept elements, as one update of the unit.
  void apply_between(int worker, std::int64_t unit, const char* delta, const Rates& rates,
                     std::span<const ElementRange> kept);
  void take_stripe(std::int64_t index, Take take);

  // Rounds: what the workers have added waits in sums until the round is complete.
  void put_off(const Asker& asker, Stripe& stripe, std::int64_t first, std::int64_t end, const char* delta,
               const Rates& rates);
  void settle(std::int64_t stripe);

  /// Applies the rule to the elements [begin, end), which begin in `unit`.
  void apply(int worker, std::int64_t unit, std::int64_t begin, std::int64_t end, const char* delta,
             const Rates& rates);
  [[noreturn]] void fail_rule(const RuleError& error) const;
  void check_whole() const;
  /// Calls work(stripe index) with each stripe's lock held, from one that differs from rank to rank.
  template <class F>
  void each_stripe(Point point, StripeRange stripes, F&& work);
  template <class F>
  void with_stripe(Point point, std::int64_t index, F&& work);

  Engine& engine_;
  std::string name_;
  std::unique_ptr<Updater> updater_;
  bool clocked_;
  bool rounds_;
  bool ordered_;
  bool backup_;  ///< a round is complete when the head says that it is closed
  bool per_unit_;
  Storage storage_;
  Geometry geometry_;
  DType dtype_;
  std::int64_t width_;
  std::int64_t cols_;
  std::unique_ptr<SparseRows> rows_of_;  ///< of a sparse table
};

}  // namespace pleiad

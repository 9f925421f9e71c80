// The server side of a table: the values that one host holds, with their stripes, locks, update rule and rounds. A
// shard knows neither clocks nor callers' buffers. Each call names the worker that it is for, so any rank of the host
// can run a call for a worker on another host. Units and rows are counted from the start of the shard.
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

/// The worker that a shard does something for.
struct Requester {
  int worker = 0;           ///< its index among the workers; 0 for a rank that is not a worker
  std::uint64_t round = 0;  ///< apply = round: the round that an add belongs to, starting at one
};

/// The stripes [first, end) of a shard.
struct StripeRange {
  std::int64_t first = 0;
  std::int64_t end = 0;
};

/// The calling thread runs each call stripe by stripe, each under its lock. Thread-safe. An error leaves some stripes
/// changed and others not. Arguments must have been checked.
class Shard {
 public:
  /// Returns the address of the delta of `count` elements from element `first` on.
  using DeltaOf = FunctionRef<const char*(std::int64_t first, std::size_t count)>;
  /// Receives the values of `count` elements from element `first` on. They do not change during the call.
  using Take = FunctionRef<void(const char* values, std::int64_t first, std::size_t count)>;

  /// Collective: creates the part of a table that this host holds, all zeros. `range` counts rows of a matrix and
  /// elements of an array. For a sparse table, its end is the number of rows that this host may hold, or 0 for as many
  /// as fit.
  Shard(Engine& engine, const TableSpec& spec, std::string name, int workers, ShardRange range);

  /// `kept`: elements that the rule skips, in ascending order. Not allowed if adds wait for their round.
  void add(const Requester& requester, StripeRange stripes, const Rates& rates, DeltaOf delta_of,
           std::span<const ElementRange> kept = {});
  void get(StripeRange stripes, Take take);
  /// Changes and reads each stripe under one lock. Not allowed if adds wait for their round.
  void add_get(const Requester& requester, StripeRange stripes, const Rates& rates, DeltaOf delta_of, Take take,
               std::span<const ElementRange> kept = {});
  /// Deltas of a repeated row are summed first. In a sparse table, all missing rows are created before the first row is
  /// changed.
  void add_rows(const Requester& requester, std::span<const RowId> ids, const char* delta, const Rates& rates);
  void get_rows(std::span<const RowId> ids, char* out);

  /// Passes the rows of `stripes` that have changed since `seen` to `take`, and updates `seen`. It has one entry per
  /// stripe, 0 for a stripe that was never read. If changes are not tracked, all entries must be 0.
  void take_changed(StripeRange stripes, std::span<std::uint64_t> seen,
                    FunctionRef<void(RowId id, const char* row)> take);
  /// Returns the stripes that are in use.
  [[nodiscard]] StripeRange in_use() const;

  // The following functions are for sparse tables.
  [[nodiscard]] SparseRows* sparse() const { return rows_of_.get(); }
  /// Drops the rows that may be dropped. Returns their number.
  std::int64_t evict();
  /// Sets a row's values directly, without the rule, and resets the rule's state for it. Creates the row if it is
  /// missing.
  void put_row(RowId id, const void* values);
  /// Returns the unit of a row. Creates the row if it is missing.
  [[nodiscard]] std::int64_t unit_for(RowId id);

  /// Calls look(stripe) with each stripe's lock held, after applying the sums of complete rounds.
  void visit(StripeRange stripes, FunctionRef<void(std::int64_t stripe)> look);

  /// Backup workers on several hosts: declares that the rounds up to this one are closed.
  void close_rounds(std::uint64_t closed) const;

  /// Sets initial values from element `first` on, before any other rank can see the table. Call start() after the last
  /// of them.
  void set(std::int64_t first, const void* values, std::size_t count);
  void start();

  [[nodiscard]] StripeRange all() const { return {0, geometry_.stripes()}; }
  [[nodiscard]] const Geometry& geometry() const { return geometry_; }
  [[nodiscard]] const Storage& storage() const { return storage_; }
  [[nodiscard]] bool rounds() const { return rounds_; }

 private:
  void change_distinct_rows(const Requester& requester, std::span<const RowId> ids, const char* delta,
                            const Rates& rates);
  void change_sparse_rows(const Requester& requester, std::span<const RowId> ids, const char* delta,
                          const Rates& rates);
  void get_sparse_rows(std::span<const RowId> ids, char* out);
  /// Copies a unit's values to `out` if holds() is true at the same point in time; otherwise returns false.
  template <class Holds>
  bool read_unit(std::int64_t unit, char* out, Holds&& holds);
  void change_stripe(const Requester& requester, std::int64_t index, const Rates& rates, DeltaOf delta_of,
                     std::span<const ElementRange> kept);
  void change_units(const Requester& requester, Stripe& stripe, std::int64_t first, std::int64_t end, const char* delta,
                    const Rates& rates, std::span<const ElementRange> kept = {});
  /// Applies the rule to the elements of a unit that are not kept, as one update of the unit.
  void apply_between(int worker, std::int64_t unit, const char* delta, const Rates& rates,
                     std::span<const ElementRange> kept);
  void take_stripe(std::int64_t index, Take take);

  // With rounds, adds are accumulated in sums until the round is complete.
  void accumulate(const Requester& requester, Stripe& stripe, std::int64_t first, std::int64_t end, const char* delta,
                  const Rates& rates);
  void apply_round(std::int64_t stripe);

  /// Applies the rule to the elements [begin, end), which start in `unit`.
  void apply(int worker, std::int64_t unit, std::int64_t begin, std::int64_t end, const char* delta,
             const Rates& rates);
  [[noreturn]] void fail_rule(const RuleError& error) const;
  void check_not_torn() const;
  /// Calls work(stripe index) with each stripe's lock held. Each rank starts at a different stripe.
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
  bool backup_;  ///< a round is complete when the head marks it as closed
  bool per_unit_;
  Storage storage_;
  Geometry geometry_;
  DType dtype_;
  std::int64_t width_;
  std::int64_t cols_;
  std::unique_ptr<SparseRows> rows_of_;  ///< for a sparse table
};

}  // namespace pleiad

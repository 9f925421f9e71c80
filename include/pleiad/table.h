// Tables: values shared by all workers of a session.
//
// Any thread may call an asynchronous table. Synchronous tables of a session must be called in one order, the same on
// every worker: a second thread that calls one at the same time gets a StateError, and if workers make different calls,
// all of them get an OrderError. A handle is cheap to copy. A table lives until it is closed, until every rank has
// dropped all its handles (its memory is then released when all ranks next create a table or reach a barrier), or until
// shutdown.
//
// The error of an asynchronous call is never lost. The call's handle throws it, or otherwise the next call on the same
// table, a barrier, a save or the shutdown, whichever comes first. A get never returns before this worker's earlier
// adds to the table have been applied or their error has been thrown. If a call on a synchronous table fails after
// its arguments were accepted, every later call of this worker on the table throws.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pleiad/api.h"
#include "pleiad/options.h"
#include "pleiad/view.h"

namespace pleiad {

class Table;
class Operation;

using RowId = std::int64_t;

/// A pending asynchronous get or add. The handle may be dropped: an add is still applied, and a get no longer writes to
/// its buffer. If a dropped operation fails, the next call on the table, a barrier, a save or the shutdown throws its
/// error.
class PLEIAD_API Pending {
 public:
  Pending() = default;
  explicit Pending(std::shared_ptr<Operation> operation);
  ~Pending();
  Pending(Pending&&) noexcept;
  Pending& operator=(Pending&&) noexcept;

  /// Returns true if wait() would return immediately.
  [[nodiscard]] bool done() const;
  /// Returns true if the operation is complete and wait() would throw.
  [[nodiscard]] bool failed() const;
  /// Blocks until the operation is complete. Throws its error if it failed.
  void wait();

 private:
  std::shared_ptr<Operation> operation_;
};

/// Counters of a table for this rank.
struct TableStats {
  std::uint64_t adds = 0;
  std::uint64_t gets = 0;
  std::uint64_t bytes_added = 0;
  std::uint64_t bytes_got = 0;
  double add_seconds = 0;  ///< time spent in adds, including waits
  double get_seconds = 0;
  double wait_seconds = 0;  ///< time spent waiting for other workers
  /// adds that missed their round (backup workers): of the whole host if there is only one host, otherwise of this
  /// worker
  std::uint64_t dropped_adds = 0;
  std::uint64_t torn_stripes = 0;  ///< stripes whose writer died during a write, counted over the whole host
  std::uint64_t combined = 0;  ///< parts of adds that a rank of this host sent to another host together with its own
};

/// Rows of a table, stored contiguously.
struct ChangedRows {
  std::vector<RowId> ids;
  std::vector<std::byte> bytes;  ///< the values of ids.size() rows
  DType dtype = DType::float32;

  [[nodiscard]] ConstView values() const {
    return {bytes.data(), static_cast<std::int64_t>(bytes.size() / size_of(dtype)), dtype};
  }
  /// Returns the values; T must be the type of dtype.
  template <Element T>
  [[nodiscard]] std::span<const T> as() const {
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

/// The common part of all table handles.
class PLEIAD_API TableHandle {
 public:
  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] DType dtype() const;
  /// Returns the index of the table in its session, starting at 0.
  [[nodiscard]] std::uint32_t id() const;
  [[nodiscard]] TableStats stats() const;
  /// Returns a server's nominal share, the range [begin, end) of elements (of a matrix: rows), as Multiverso divides
  /// them. The hosts divide a table at other places (whole stripes).
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> shard(int server) const;
  /// clock = ssp: declares that this worker has finished a step. Its earlier adds are visible to all later gets.
  void tick() const;
  /// apply = round: returns the number of complete rounds. With backup workers, use this to decide when to end: late
  /// adds are dropped, so a worker's own count of adds is no measure.
  [[nodiscard]] std::uint64_t rounds() const;
  /// Collective over all ranks: replaces every value of the table by `values` of rank `root`. This bypasses the rule,
  /// whose state stays, except copies of the values. Arrays and matrices only. The other ranks' `values` are ignored.
  /// An error on one rank is thrown on all ranks.
  void set(const ConstView& values, int root = 0) const;
  /// Collective over all ranks: releases the table's memory now. Later calls, also through other copies of the handle,
  /// throw a StateError. Throws the errors of earlier calls on all ranks; in that case the table stays open. Does
  /// nothing if the table is already closed.
  void close() const;
  [[nodiscard]] bool closed() const;

 protected:
  explicit TableHandle(std::shared_ptr<Table> table) : table_(std::move(table)) {}
  std::shared_ptr<Table> table_;
};

/// A delta for consecutive elements of an array, starting at `at`.
struct ArrayPart {
  std::int64_t at = 0;
  ConstView delta;
};

/// The elements [begin, end) of an array.
struct ElementRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// A one-dimensional table.
class PLEIAD_API ArrayTable : public TableHandle {
 public:
  explicit ArrayTable(std::shared_ptr<Table> table) : TableHandle(std::move(table)) {}
  [[nodiscard]] std::int64_t size() const;

  /// Copies the table into `out`, which must have size() elements of dtype(). Sees all earlier adds of
  /// this worker.
  void get(const View& out) const;
  /// Applies the table's rule with `delta`. The caller may reuse the buffer on return.
  void add(const ConstView& delta, const AddOptions& options = {}) const;
  /// Same as add(delta) followed by get(out). An asynchronous table does both in one pass over memory: every stripe of
  /// 128 KB is changed and read under one lock. On a synchronous table the get waits for the other workers' adds, as it
  /// does after any add. `out` may be `delta`.
  void add_get(const ConstView& delta, const View& out, const AddOptions& options = {}) const;
  /// Synchronises a worker's own copy with the table: adds values - last, then sets both `values` and `last` to the
  /// table, in as few passes as add_get. `last` must hold what the previous exchange left there (at first, the result
  /// of a get). Both buffers have size() elements.
  void exchange(View values, View last, const AddOptions& options = {}) const;
  /// Adds a delta that is given in parts, which must be ascending and disjoint; all other elements get a zero delta. If
  /// `out` is not empty, a get follows, as in add_get. `kept` lists ascending, disjoint ranges of elements that the
  /// rule skips: their values and their rule state stay unchanged. Supported on tables with apply = each; otherwise
  /// throws a StateError.
  void add_parts(std::span<const ArrayPart> delta, const View& out = {}, const AddOptions& options = {},
                 std::span<const ElementRange> kept = {}) const;
  /// Collective over all ranks, on one host: runs the rule once on the sum of all ranks' deltas, in rank order, with
  /// each rank processing its share of the elements. The call is complete on all ranks when it returns. `delta` has the
  /// form described at add_parts; `options` and `kept` must be the same on all ranks. A mistake on one rank is an error
  /// on all ranks, and nothing changes. For asynchronous tables: a table that is changed by step() alone behaves as
  /// with synchronous rounds, but can be read in place.
  void step(std::span<const ArrayPart> delta, const AddOptions& options = {},
            std::span<const ElementRange> kept = {}) const;
  /// Returns the table's own memory, which all workers of one host share, so that reading needs no get. It is valid
  /// while a handle lives and the table is not closed. A single worker may write to it. With several workers it is
  /// read-only, and adds change it at any time, element by element, as does step(). Throws a StateError with several
  /// hosts, with apply = round, or with several workers and a clock.
  [[nodiscard]] View map() const;
  /// Returns an owner that keeps the memory of map() alive after close() and after the last handle is gone.
  [[nodiscard]] std::shared_ptr<void> mapped_memory() const;
  /// Starts a get and returns immediately. `out` must outlive the returned handle.
  [[nodiscard]] Pending get_async(const View& out) const;
  /// Starts an add. The caller may reuse `delta` on return: it has been applied or copied.
  [[nodiscard]] Pending add_async(const ConstView& delta, const AddOptions& options = {}) const;

  // The following functions are for checkpoints. They are not collective. No thread or rank may call the table at the
  // same time: use them between two barriers, after a get by every worker.
  /// The size of the rule's state: the number of arrays of size() elements, and the number of single doubles.
  /// Per-worker state is not counted.
  struct RuleState {
    int arrays = 0;
    int numbers = 0;
  };
  [[nodiscard]] RuleState rule_state() const;
  /// `arrays` and `numbers` must have the lengths that rule_state() returns.
  void save_to(View values, std::span<const View> arrays, std::span<double> numbers) const;
  /// Per-worker state of the rule is reset.
  void load_from(const ConstView& values, std::span<const ConstView> arrays, std::span<const double> numbers) const;
};

/// A two-dimensional table, with rows that can be read and added to individually.
class PLEIAD_API MatrixTable : public TableHandle {
 public:
  explicit MatrixTable(std::shared_ptr<Table> table) : TableHandle(std::move(table)) {}
  [[nodiscard]] std::int64_t rows() const;
  [[nodiscard]] std::int64_t cols() const;

  void get(const View& out) const;
  void add(const ConstView& delta, const AddOptions& options = {}) const;
  [[nodiscard]] Pending get_async(const View& out) const;
  [[nodiscard]] Pending add_async(const ConstView& delta, const AddOptions& options = {}) const;

  /// Copies rows into `out` in the order given. Requires out.count == ids.size() * cols(). A repeated id is copied each
  /// time; `ids` may be empty.
  void get_rows(std::span<const RowId> ids, const View& out) const;
  /// Adds to the given rows. Deltas of a repeated id are summed first.
  void add_rows(std::span<const RowId> ids, const ConstView& delta, const AddOptions& options = {}) const;
  [[nodiscard]] Pending get_rows_async(std::span<const RowId> ids, const View& out) const;
  [[nodiscard]] Pending add_rows_async(std::span<const RowId> ids, const ConstView& delta,
                                       const AddOptions& options = {}) const;

  /// With track_changes: returns the rows that have changed since this rank's last get_changed, with their current
  /// values; the first call returns all rows. A call that fails forgets nothing: the next one returns the same rows.
  [[nodiscard]] ChangedRows get_changed() const;

  void get_row(RowId id, const View& out) const { get_rows({&id, 1}, out); }
  void add_row(RowId id, const ConstView& delta, const AddOptions& options = {}) const {
    add_rows({&id, 1}, delta, options);
  }
};

/// A table of rows whose ids are any 64-bit integers. It has as many rows as memory allows. A row is created by its
/// first add, with the values of the table's initialiser (a function of seed and id). A get of a missing row returns
/// these initial values and creates nothing. Rows never move. A row that has been dropped (options evict, max_age)
/// behaves as if it had never existed.
class PLEIAD_API SparseTable : public TableHandle {
 public:
  explicit SparseTable(std::shared_ptr<Table> table) : TableHandle(std::move(table)) {}
  [[nodiscard]] std::int64_t cols() const;
  /// Returns the number of rows on all hosts. While others add, the count may be slightly outdated.
  [[nodiscard]] std::int64_t rows() const;

  /// Copies rows into `out` in the order given. Requires out.count == ids.size() * cols(). A repeated id is copied each
  /// time; `ids` may be empty.
  void get(std::span<const RowId> ids, const View& out) const;
  /// Adds to the given rows. Deltas of a repeated id are summed first. Throws a MemoryError if there is no room for a
  /// new row: no row of that host has then been changed, some new rows may exist with their initial values, and the
  /// table remains usable.
  void add(std::span<const RowId> ids, const ConstView& delta, const AddOptions& options = {}) const;
  /// `out` must outlive the returned handle; the caller may reuse `ids` on return.
  [[nodiscard]] Pending get_async(std::span<const RowId> ids, const View& out) const;
  [[nodiscard]] Pending add_async(std::span<const RowId> ids, const ConstView& delta,
                                  const AddOptions& options = {}) const;
  /// See MatrixTable::get_changed; the first call returns all existing rows. Rows that have been dropped are not
  /// reported.
  [[nodiscard]] ChangedRows get_changed() const;
  /// Returns all existing rows.
  [[nodiscard]] ChangedRows get_all() const;
  /// Collective over all ranks: replaces the content of the table by these rows of rank `root`. This bypasses the rule,
  /// whose state is reset. The other ranks' arguments are ignored. An error on one rank is thrown on all ranks.
  void set(std::span<const RowId> ids, const ConstView& values, int root = 0) const;
  /// With evict or max_age: drops the rows whose last add is longer ago than max_age, and, if there are max_rows rows,
  /// some of the oldest. The table also does this by itself when there is no room for a new row. Returns the number of
  /// dropped rows.
  std::int64_t evict() const;
};

/// A table of values by 64-bit key: a sparse table with one or a few values per row.
class PLEIAD_API KeyValueTable : public TableHandle {
 public:
  explicit KeyValueTable(std::shared_ptr<Table> table) : TableHandle(std::move(table)) {}
  /// Returns the number of values per key.
  [[nodiscard]] std::int64_t width() const;
  /// Returns the number of keys.
  [[nodiscard]] std::int64_t size() const;

  // These functions have the contracts of SparseTable.
  void get(std::span<const RowId> keys, const View& out) const;
  void add(std::span<const RowId> keys, const ConstView& delta, const AddOptions& options = {}) const;
  [[nodiscard]] Pending get_async(std::span<const RowId> keys, const View& out) const;
  [[nodiscard]] Pending add_async(std::span<const RowId> keys, const ConstView& delta,
                                  const AddOptions& options = {}) const;
  [[nodiscard]] ChangedRows get_changed() const;
  [[nodiscard]] ChangedRows get_all() const;
  std::int64_t evict() const;

  /// Returns the value of one key. Requires width() == 1.
  template <Element T>
  [[nodiscard]] T at(RowId key) const {
    T value{};
    get({&key, 1}, View(&value, 1, dtype_of<T>));
    return value;
  }
  template <Element T>
  void add(RowId key, T delta, const AddOptions& options = {}) const {
    add({&key, 1}, ConstView(&delta, 1, dtype_of<T>), options);
  }
};

}  // namespace pleiad

// Tables: numbers shared by all workers of a session.
//
// Any thread may call an asynchronous table. A worker calls the synchronous tables of a session in one order, the same
// on every worker: a second thread that calls one meanwhile gets a StateError, and workers whose calls differ all get
// an OrderError. A handle is cheap to copy. A table lives until it is closed, or until every rank has dropped all its
// handles (its memory is then released when all ranks next create a table or come to a barrier), or until the shutdown.
//
// An error of a started call is never lost. It is thrown by the call's handle, or else by the next call on the same
// table, a barrier, a save or the shutdown, whichever comes first. A get never returns before this worker's earlier
// adds to the table have been applied or their error has been thrown. After a failed call a synchronous table is closed
// for this worker: every later call on it throws.
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

/// A get or add that was started. It may be dropped: an add is still carried out, and a get no longer writes to its
/// buffer. If the operation then fails, the next call on the table, a barrier, a save or the shutdown throws its error.
class PLEIAD_API Pending {
 public:
  Pending() = default;
  explicit Pending(std::shared_ptr<Operation> operation);
  ~Pending();
  Pending(Pending&&) noexcept;
  Pending& operator=(Pending&&) noexcept;

  /// True once wait() would return at once.
  [[nodiscard]] bool done() const;
  /// True once the operation is complete and wait() would throw.
  [[nodiscard]] bool failed() const;
  /// Returns when the operation is complete, or throws what went wrong in it.
  void wait();

 private:
  std::shared_ptr<Operation> operation_;
};

/// What a table has done for this rank.
struct TableStats {
  std::uint64_t adds = 0;
  std::uint64_t gets = 0;
  std::uint64_t bytes_added = 0;
  std::uint64_t bytes_got = 0;
  double add_seconds = 0;  ///< in adds, waiting included
  double get_seconds = 0;
  double wait_seconds = 0;         ///< waiting for other workers
  std::uint64_t dropped_adds = 0;  ///< adds that came too late for their round (backup): of the whole host, where it
                                   ///< is the only one, else of this worker
  std::uint64_t torn_stripes = 0;  ///< of the whole host: stripes whose writer died in the middle
  std::uint64_t combined = 0;      ///< parts of adds that a rank of this host sent to another host along with its own
};

/// Rows of a table, one after another.
struct ChangedRows {
  std::vector<RowId> ids;
  std::vector<std::byte> bytes;  ///< of ids.size() rows
  DType dtype = DType::float32;

  [[nodiscard]] ConstView values() const {
    return {bytes.data(), static_cast<std::int64_t>(bytes.size() / size_of(dtype)), dtype};
  }
  /// The numbers as those of dtype.
  template <Element T>
  [[nodiscard]] std::span<const T> as() const {
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

/// What all tables have in common.
class PLEIAD_API TableHandle {
 public:
  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] DType dtype() const;
  /// The number of the table in its session: 0 for the first.
  [[nodiscard]] std::uint32_t id() const;
  [[nodiscard]] TableStats stats() const;
  /// Which elements (of a matrix: rows) a server owns, as begin and end.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> shard(int server) const;
  /// clock = ssp: this worker has finished a step. What it added before is there for those who get later.
  void tick() const;
  /// apply = round: how many rounds are complete. With backup workers this says when to end: their late adds are
  /// dropped, so a worker's own count is no measure.
  [[nodiscard]] std::uint64_t rounds() const;
  /// Collective over all ranks: every value of the table becomes that of `values` at rank `root`, past the rule, whose
  /// state stays. At the other ranks `values` is not looked at. What is wrong at one rank all ranks throw.
  void set(const ConstView& values, int root = 0) const;
  /// Collective over all ranks: releases the table's memory now. Later calls, by other copies of the handle too, throw
  /// a StateError. Throws the errors of earlier calls on all ranks; the table then stays open. Does nothing if the
  /// table was closed.
  void close() const;
  [[nodiscard]] bool closed() const;

 protected:
  explicit TableHandle(std::shared_ptr<Table> table) : table_(std::move(table)) {}
  std::shared_ptr<Table> table_;
};

/// Elements of an array from `at` on.
struct ArrayPart {
  std::int64_t at = 0;
  ConstView delta;
};

/// The elements [begin, end) of an array.
struct ElementRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// A row of numbers.
class PLEIAD_API ArrayTable : public TableHandle {
 public:
  explicit ArrayTable(std::shared_ptr<Table> table) : TableHandle(std::move(table)) {}
  [[nodiscard]] std::int64_t size() const;

  /// Copies the table into `out`, which has size() elements of dtype(). Sees every add that this worker has waited for.
  void get(const View& out) const;
  /// Hands `delta` to the rule. The buffer is free again on return.
  void add(const ConstView& delta, const AddOptions& options = {}) const;
  /// add(delta), then get(out). On an asynchronous table in one pass over the memory: every stripe of 128 KB is changed
  /// and read under one lock. On a synchronous one the get waits for the others' adds, as it does after an add. `out`
  /// may be `delta`.
  void add_get(const ConstView& delta, const View& out, const AddOptions& options = {}) const;
  /// Brings a worker's own copy and the table together: add(values - last), then values = last = the table, in as few
  /// passes as add_get. `last` is what the exchange before left there (at first, a get). Two buffers of size()
  /// elements.
  void exchange(View values, View last, const AddOptions& options = {}) const;
  /// An add of a delta that lies in parts, ascending and apart from each other; other elements get zero. Where `out`
  /// has numbers, then a get, as add_get does it. `kept` (ascending and apart from each other) lists elements that the
  /// rule does not see: their values and its state for them stay as they are. That is for tables with apply = each;
  /// elsewhere it is a StateError.
  void add_parts(std::span<const ArrayPart> delta, const View& out = {}, const AddOptions& options = {},
                 std::span<const ElementRange> kept = {}) const;
  /// Collective over all ranks, on one host: the rule runs once on the sum of their deltas, in rank order, each rank on
  /// its share of the numbers. All are done on return. The parts are those of add_parts; the options and `kept`
  /// are the same everywhere. What one rank gets wrong is an error on all, and nothing changes. For asynchronous
  /// tables: with step alone they change as by synchronous rounds, but read in place.
  void step(std::span<const ArrayPart> delta, const AddOptions& options = {},
            std::span<const ElementRange> kept = {}) const;
  /// The table's own numbers, which all workers of one host see: whoever computes with them needs no get. They are
  /// there while a handle lives and the table is not closed. Who is alone may change them. With more
  /// workers they are read, and change by adds at any time, number by number, or by `step`. With several hosts, or
  /// apply = round, or more workers and a clock: a StateError.
  [[nodiscard]] View map() const;
  /// Keeps the memory of map() past close() and the last handle.
  [[nodiscard]] std::shared_ptr<void> mapped_memory() const;
  /// `out` must outlive the handle.
  [[nodiscard]] Pending get_async(const View& out) const;
  /// `delta` is free again on return: it was applied, or copied.
  [[nodiscard]] Pending add_async(const ConstView& delta, const AddOptions& options = {}) const;

  // For checkpoints. Not collective, and not while anybody calls the table: between two barriers, after a get by every
  // worker.
  /// How many arrays of size() the rule keeps beside the values, and how many single numbers. What it keeps for each
  /// worker is not counted.
  struct RuleState {
    int arrays = 0;
    int numbers = 0;
  };
  [[nodiscard]] RuleState rule_state() const;
  /// `arrays` and `numbers` are as many as rule_state() says.
  void save_to(View values, std::span<const View> arrays, std::span<double> numbers) const;
  /// What the rule keeps for each worker begins anew.
  void load_from(const ConstView& values, std::span<const ConstView> arrays, std::span<const double> numbers) const;
};

/// Rows of numbers.
class PLEIAD_API MatrixTable : public TableHandle {
 public:
  explicit MatrixTable(std::shared_ptr<Table> table) : TableHandle(std::move(table)) {}
  [[nodiscard]] std::int64_t rows() const;
  [[nodiscard]] std::int64_t cols() const;

  void get(const View& out) const;
  void add(const ConstView& delta, const AddOptions& options = {}) const;
  [[nodiscard]] Pending get_async(const View& out) const;
  [[nodiscard]] Pending add_async(const ConstView& delta, const AddOptions& options = {}) const;

  /// Row after row: out.count == ids.size() * cols(). A row asked for twice comes twice; no ids are allowed.
  void get_rows(std::span<const RowId> ids, const View& out) const;
  /// Deltas of a row named twice are summed first.
  void add_rows(std::span<const RowId> ids, const ConstView& delta, const AddOptions& options = {}) const;
  [[nodiscard]] Pending get_rows_async(std::span<const RowId> ids, const View& out) const;
  [[nodiscard]] Pending add_rows_async(std::span<const RowId> ids, const ConstView& delta,
                                       const AddOptions& options = {}) const;

  /// With track_changes: the rows that have changed since this rank's last get_changed, each with its values now; at
  /// first all rows. A call that fails forgets nothing.
  [[nodiscard]] ChangedRows get_changed() const;

  void get_row(RowId id, const View& out) const { get_rows({&id, 1}, out); }
  void add_row(RowId id, const ConstView& delta, const AddOptions& options = {}) const {
    add_rows({&id, 1}, delta, options);
  }
};

/// Rows whose ids are any 64 bits, as many as the memory holds. A row is made when it is first added to, as the table's
/// initialiser has it (a function of seed and id); a get of one that is not there gives the same numbers and makes
/// none. Rows never move. Where they may go away (options evict, max_age), a row that did is as if it had never been
/// there.
class PLEIAD_API SparseTable : public TableHandle {
 public:
  explicit SparseTable(std::shared_ptr<Table> table) : TableHandle(std::move(table)) {}
  [[nodiscard]] std::int64_t cols() const;
  /// How many rows there are, on all hosts: while others add, how many there were a moment ago.
  [[nodiscard]] std::int64_t rows() const;

  /// Row after row: out.count == ids.size() * cols(). A row asked for twice comes twice; no ids are allowed.
  void get(std::span<const RowId> ids, const View& out) const;
  /// Deltas of a row named twice are summed first. A MemoryError where there is no room for a new row: then no row of
  /// that host was changed, and the table goes on with those that it has.
  void add(std::span<const RowId> ids, const ConstView& delta, const AddOptions& options = {}) const;
  /// `out` must outlive the handle; `ids` are free again on return.
  [[nodiscard]] Pending get_async(std::span<const RowId> ids, const View& out) const;
  [[nodiscard]] Pending add_async(std::span<const RowId> ids, const ConstView& delta,
                                  const AddOptions& options = {}) const;
  /// As MatrixTable has it; at first all rows that are there. Rows that went away are not told of.
  [[nodiscard]] ChangedRows get_changed() const;
  /// All rows that are there.
  [[nodiscard]] ChangedRows get_all() const;
  /// Collective over all ranks: the table then has these rows of rank `root` and no others, past the rule, whose state
  /// starts anew. At the other ranks `ids` and `values` are not looked at. What is wrong at one rank all ranks throw.
  void set(std::span<const RowId> ids, const ConstView& values, int root = 0) const;
  /// With evict or max_age: drops the rows whose last add is longer ago than max_age, and where max_rows are there some
  /// of the oldest. This also happens by itself, when there is no room for a new row. Returns how many went.
  std::int64_t evict() const;
};

/// Numbers by 64-bit keys: a sparse table whose rows are one number or a few.
class PLEIAD_API KeyValueTable : public TableHandle {
 public:
  explicit KeyValueTable(std::shared_ptr<Table> table) : TableHandle(std::move(table)) {}
  /// Numbers of one key.
  [[nodiscard]] std::int64_t width() const;
  /// How many keys there are.
  [[nodiscard]] std::int64_t size() const;

  // As SparseTable has them.
  void get(std::span<const RowId> keys, const View& out) const;
  void add(std::span<const RowId> keys, const ConstView& delta, const AddOptions& options = {}) const;
  [[nodiscard]] Pending get_async(std::span<const RowId> keys, const View& out) const;
  [[nodiscard]] Pending add_async(std::span<const RowId> keys, const ConstView& delta,
                                  const AddOptions& options = {}) const;
  [[nodiscard]] ChangedRows get_changed() const;
  [[nodiscard]] ChangedRows get_all() const;
  std::int64_t evict() const;

  /// One key's number, of a table of width 1.
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

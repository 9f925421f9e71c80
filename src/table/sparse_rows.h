// The rows of a sparse table on one host: which unit of the shard's memory holds which row, how rows are made when they
// are first added to, and how they go away again.
//
// A unit is taken, filled with the row's first values, tagged with its id and only then published by the index: so who
// finds a row finds it whole, and who dies on the way leaves a unit that nobody sees.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "table/row_index.h"
#include "table/row_init.h"
#include "table/spec.h"
#include "table/storage.h"

namespace pleiad {

/// The geometry of rows that are not there yet: address space for as many as the machine's memory could hold, or for
/// `most` where that is not 0.
[[nodiscard]] Geometry reserve_rows(const TableSpec& spec, StorageShape shape, std::int64_t most);

class SparseRows {
 public:
  /// Removes a unit's row under its stripe's lock.
  using Drop = FunctionRef<void(std::int64_t unit)>;

  /// Collective. `most` rows are allowed on this host; 0: as many as fit.
  SparseRows(Engine& engine, const TableSpec& spec, std::string name, const Storage& storage, std::int64_t most);

  /// The row's unit, or -1.
  [[nodiscard]] std::int64_t find(RowId id) const { return index_.find(id); }
  void find(std::span<const RowId> ids, std::span<std::int64_t> units) const;
  /// The row's unit; it is made if it is not there. -1 where others must go away first, by evict, after which `tried`
  /// is true. A MemoryError where there is no room for another row: all that was there stays as it is.
  std::int64_t find_or_make(RowId id, bool tried);
  /// What a row that was never added to holds.
  void fill(RowId id, void* row) const { init_.fill(id, row); }

  /// Rows may go away: so who has found one looks again, under the stripe's lock or in an unlocked read.
  [[nodiscard]] bool evicts() const { return evicts_; }
  [[nodiscard]] bool holds(std::int64_t unit, RowId id) const {
    const RowTag& tag = storage_.tag(unit);
    return tag.id.load(std::memory_order_relaxed) == id && tag.touched.load(std::memory_order_relaxed) != 0;
  }
  /// The row was added to. Under the stripe's lock.
  void touch(std::int64_t unit, std::int64_t now) const {
    storage_.tag(unit).touched.store(now, std::memory_order_relaxed);
  }
  /// True where the unit holds a row that can be found.
  [[nodiscard]] bool published(std::int64_t unit) const;
  [[nodiscard]] RowId id_of(std::int64_t unit) const { return storage_.tag(unit).id.load(std::memory_order_relaxed); }

  /// Drops what is too old, and where max_rows are there a sixteenth of them. Returns how many went. No lock is held.
  std::int64_t evict(Drop drop);
  /// Forgets all rows. Nobody else may call anything meanwhile.
  void clear();

  [[nodiscard]] std::int64_t rows() const { return slots().rows.load(); }
  /// Units that ever held a row.
  [[nodiscard]] std::int64_t units() const { return slots().used.load(std::memory_order_acquire); }

 private:
  [[nodiscard]] Slots& slots() const { return storage_.head().slots; }
  std::int64_t take_unit(bool tried);
  void commit_more(std::int64_t used);
  void free_unit(std::int64_t unit);

  Engine& engine_;
  const Storage& storage_;
  std::string name_;
  bool by_count_;
  std::int64_t most_;
  std::int64_t max_age_;  ///< nanoseconds
  bool evicts_;
  RowInit init_;
  RowIndex index_;
};

}  // namespace pleiad

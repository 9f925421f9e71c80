// The rows of a sparse table on one host: which unit of the shard's memory holds which row, and how rows are created
// and dropped.
//
// To create a row, a unit is allocated, filled with the initial values, tagged with the id, and only then published in
// the index. A row that can be found is therefore complete. A rank that dies in between leaves a unit that no rank can
// see.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "table/row_index.h"
#include "table/row_init.h"
#include "table/spec.h"
#include "table/storage.h"

namespace pleiad {

/// Returns the geometry for rows that do not exist yet: address space for as many as the machine's memory could hold,
/// or for `most` if that is not 0.
[[nodiscard]] Geometry reserve_rows(const TableSpec& spec, StorageShape shape, std::int64_t most);

class SparseRows {
 public:
  /// Removes a unit's row under its stripe's lock.
  using Drop = FunctionRef<void(std::int64_t unit)>;

  /// Collective. `most` is the maximum number of rows on this host; 0: as many as fit.
  SparseRows(Engine& engine, const TableSpec& spec, std::string name, const Storage& storage, std::int64_t most);

  /// Returns the unit of the row, or -1.
  [[nodiscard]] std::int64_t find(RowId id) const { return index_.find(id); }
  void find(std::span<const RowId> ids, std::span<std::int64_t> units) const;
  /// Returns the unit of the row, which is created if it is missing. Returns -1 if rows must be dropped first: call
  /// evict and try again with `tried` = true. Throws a MemoryError if there is no room for another row; existing rows
  /// stay unchanged.
  std::int64_t find_or_make(RowId id, bool tried);
  /// Writes the initial values, which are the content of a missing row.
  void fill(RowId id, void* row) const { init_.fill(id, row); }

  /// Returns true if rows may be dropped. In that case, a unit that was found must be checked again with holds(), under
  /// the stripe's lock or inside an unlocked read.
  [[nodiscard]] bool evicts() const { return evicts_; }
  [[nodiscard]] bool holds(std::int64_t unit, RowId id) const {
    const RowTag& tag = storage_.tag(unit);
    return tag.id.load(std::memory_order_relaxed) == id && tag.touched.load(std::memory_order_relaxed) != 0;
  }
  /// Records an add to the row. Called under the stripe's lock.
  void touch(std::int64_t unit, std::int64_t now) const {
    storage_.tag(unit).touched.store(now, std::memory_order_relaxed);
  }
  /// Returns true if the unit holds a row that can be found.
  [[nodiscard]] bool published(std::int64_t unit) const;
  [[nodiscard]] RowId id_of(std::int64_t unit) const { return storage_.tag(unit).id.load(std::memory_order_relaxed); }

  /// Drops rows that are too old and, if there are max_rows rows, a sixteenth of them. Returns the number of dropped
  /// rows. The caller must not hold a lock.
  std::int64_t evict(Drop drop);
  /// Removes all rows. No other rank or thread may use the table at the same time.
  void clear();

  [[nodiscard]] std::int64_t rows() const { return slots().rows.load(); }
  /// Returns the number of units that have ever held a row.
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

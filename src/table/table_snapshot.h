// The part of a table that one rank saves and loads in a snapshot: each rank handles some of the stripes of its host.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/raw_bytes.h"
#include "file/saved_set.h"
#include "table/table.h"

namespace pleiad {

/// A copy of a rectangular region of an array.
struct CopiedRegion {
  std::string array;
  ElementType type;
  std::vector<std::int64_t> shape;  ///< shape of the whole array
  Box box;
  RawBytes bytes;
  /// The dimension along which the ranks' regions are concatenated, if their sizes are not known yet: `shape` and the
  /// begin of `box` are filled in after all ranks have counted their rows. -1 if there is none.
  int counted = -1;
};

/// The element type of per-unit state of a rule.
inline constexpr ElementType kUnitType{.name = "F64", .bits = 64};
/// The names of the arrays for the k-th state of a table's rule, and for the k-th per-worker state.
inline std::string state_name(const Table& table, int k) { return fmt::format("{}/state{}", table.name(), k); }
inline std::string worker_name(const Table& table, int k) { return fmt::format("{}/worker{}", table.name(), k); }

/// Appends copies of this rank's stripes: the values under the table's name, the rule's state under "NAME/state0",
/// "NAME/worker0" (with one array per worker) and "NAME/units/FIRST". Each stripe is copied under its lock. For a
/// sparse table, copies the existing rows, with their ids under "NAME/ids" and a row of "NAME/units" for each. Long
/// copies use buffers of `spare`.
void copy_for_snapshot(Table& table, BufferPool& spare, std::vector<CopiedRegion>& out);

/// Throws a FileError that describes the difference if the saved table cannot be loaded into this one. `where` names
/// the snapshot.
void check_snapshot(const Table& table, const SavedSet& set, bool values_only, const std::string& where);

/// Prepares for load_from_snapshot: removes all rows of a sparse table. A barrier must follow before
/// load_from_snapshot.
void clear_for_load(Table& table);

/// Loads this rank's stripes. Every rank must have called check_snapshot. `same_workers`: the snapshot was saved with
/// the current number of workers.
void load_from_snapshot(Table& table, const SavedSet& set, bool values_only, bool same_workers);

// The same for the rows of a sparse table, in sparse_table_snapshot.cc.
void copy_rows(Table& table, BufferPool& spare, std::vector<CopiedRegion>& out);
void check_rows(const Table& table, const SavedSet& set, const std::string& where);
void load_rows(Table& table, const SavedSet& set, bool values_only, bool same_workers);

}  // namespace pleiad

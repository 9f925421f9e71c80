// What one rank saves of a table, and how it gets it back: every rank takes care of some of the stripes of its host.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/raw_bytes.h"
#include "file/saved_set.h"
#include "table/table.h"

namespace pleiad {

/// A copy of a rectangle of an array.
struct CopiedPiece {
  std::string array;
  ElementType type;
  std::vector<std::int64_t> shape;  ///< of the whole array
  Box box;
  RawBytes bytes;
  /// The dimension in which the ranks' pieces stand one after another: of rows that nobody has counted yet, begin and
  /// shape are filled in when all have. -1 for none.
  int counted = -1;
};

/// The element type of what a rule keeps for each unit.
inline constexpr ElementType kUnitType{.name = "F64", .bits = 64};
/// The names of the arrays that hold the k-th state of a table's rule, and the k-th state that it keeps for each
/// worker.
inline std::string state_name(const Table& table, int k) { return fmt::format("{}/state{}", table.name(), k); }
inline std::string worker_name(const Table& table, int k) { return fmt::format("{}/worker{}", table.name(), k); }

/// Appends copies of this rank's share: the values under the table's name, what the rule keeps under "NAME/state0",
/// "NAME/worker0" (one a worker) and "NAME/units/FIRST". Each stripe is copied under its lock. Of a sparse table the
/// rows that are there, with their ids under "NAME/ids", and "NAME/units" has a row for each. Long ones go into
/// `spare`.
void copy_share(Table& table, BufferPool& spare, std::vector<CopiedPiece>& out);

/// A FileError that says how the saved table differs, where it cannot be loaded into this one. `where` names the set.
void check_share(const Table& table, const SavedSet& set, bool values_only, const std::string& where);

/// Makes room for what load_share brings: of a sparse table all rows go. Before a barrier and that.
void clear_share(Table& table);

/// Fills this rank's share. check_share was called on every rank. `same_workers` says that the set was saved by as many
/// workers as there are now.
void load_share(Table& table, const SavedSet& set, bool values_only, bool same_workers);

// sparse_share.cc: the same for the rows of a sparse table.
void copy_rows(Table& table, BufferPool& spare, std::vector<CopiedPiece>& out);
void check_rows(const Table& table, const SavedSet& set, const std::string& where);
void load_rows(Table& table, const SavedSet& set, bool values_only, bool same_workers);

}  // namespace pleiad

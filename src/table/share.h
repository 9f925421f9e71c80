// What one rank saves of a table, and how it gets it back: every rank takes care of some of the stripes of its host.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

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
};

/// Appends copies of this rank's share: the values under the table's name, what the rule keeps under "NAME/state0",
/// "NAME/worker0" (one a worker) and "NAME/units/FIRST". Each stripe is copied under its lock.
void copy_share(Table& table, std::vector<CopiedPiece>& out);

/// A FileError that says how the saved table differs, where it cannot be loaded into this one. `where` names the set.
void check_share(const Table& table, const SavedSet& set, bool values_only, const std::string& where);

/// Fills this rank's share. check_share was called on every rank. `same_workers` says that the set was saved by as many
/// workers as there are now.
void load_share(Table& table, const SavedSet& set, bool values_only, bool same_workers);

}  // namespace pleiad

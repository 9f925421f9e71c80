// The description of a table, and the part of it that a call refers to.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "pleiad/options.h"
#include "pleiad/table.h"

namespace pleiad {

enum class ClockKind : std::uint8_t { sync, ssp, backup };

struct ClockRule {
  ClockKind kind = ClockKind::sync;
  bool rounds = false;
  std::int64_t staleness = 0;
  int spare = 0;  ///< backup: the number of workers that a round does not wait for
};

/// The properties of a table that all ranks must agree on.
struct TableSpec {
  bool matrix = false;    ///< the table has rows
  std::int64_t rows = 1;  ///< 1 for an array; 0 for a sparse table
  std::int64_t cols = 0;  ///< for an array: its size
  TableOptions options;
  bool sparse = false;     ///< rows have any 64-bit ids and are created by their first add
  bool key_value = false;  ///< a sparse table with one or a few values per row, whose ids are called keys
  std::string mistake{};   ///< an error that the caller found on this rank, or empty

  /// Returns the name of the handle class for messages, such as "ArrayTable".
  [[nodiscard]] const char* handle() const;
  /// Returns "array", "matrix", "sparse" or "key_value".
  [[nodiscard]] const char* kind() const;
  /// Returns true if rows may be dropped automatically.
  [[nodiscard]] bool evicts() const { return sparse && (options.evict || options.max_age > 0); }

  /// Throws an InvalidArgument if the options are invalid.
  void check() const;
  /// The part of check() that concerns rows.
  void check_rows() const;
  /// Returns a description such as "matrix "w" of 10 x 5 float32, async, apply each, rule sgd".
  [[nodiscard]] std::string description(std::uint32_t id) const;
  [[nodiscard]] std::string name(std::uint32_t id) const;
  /// Returns the clock's rule; not for asynchronous tables.
  [[nodiscard]] ClockRule clock_rule(int workers) const;
};

/// A whole table, or some of its rows.
struct Selection {
  bool all = true;
  std::span<const RowId> ids;
};

}  // namespace pleiad

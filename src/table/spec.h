// What a table is, and which part of it a call is about.
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
  int spare = 0;  ///< backup: how many of the workers a round does not wait for
};

/// What all ranks must agree on.
struct TableSpec {
  bool matrix = false;    ///< it has rows
  std::int64_t rows = 1;  ///< of an array: 1; of a sparse table: 0
  std::int64_t cols = 0;  ///< of an array: its size
  TableOptions options;
  bool sparse = false;     ///< rows have ids of any 64 bits, and are made when they are first added to
  bool key_value = false;  ///< a sparse table whose rows are called values, and ids keys
  std::string mistake{};   ///< what the caller found wrong on this rank, or empty

  /// "ArrayTable", as messages call it.
  [[nodiscard]] const char* handle() const;
  /// "array", "matrix", "sparse" or "key_value".
  [[nodiscard]] const char* kind() const;
  /// Rows may go away by themselves.
  [[nodiscard]] bool evicts() const { return sparse && (options.evict || options.max_age > 0); }

  /// Throws an InvalidArgument for what no table can be.
  void check() const;
  /// Of these, what concerns rows.
  void check_rows() const;
  /// "matrix "w" of 10 x 5 float32, async, apply each, rule sgd"
  [[nodiscard]] std::string words(std::uint32_t id) const;
  [[nodiscard]] std::string name(std::uint32_t id) const;
  /// How its clock counts; not for an asynchronous table.
  [[nodiscard]] ClockRule clock_rule(int workers) const;
};

/// All of a table, or some of its rows.
struct Selection {
  bool all = true;
  std::span<const RowId> ids;
};

}  // namespace pleiad

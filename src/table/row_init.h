// The initial values of a row of a sparse table: a function of the table's seed and the row's id, so any rank computes
// the same row at any time.
#pragma once

#include <cstdint>

#include "pleiad/options.h"
#include "pleiad/table.h"

namespace pleiad {

class RowInit {
 public:
  RowInit(const TableOptions& options, std::int64_t cols);
  /// Writes the initial values of the row.
  void fill(RowId id, void* row) const;

 private:
  enum class Kind : std::uint8_t { zeros, constant, uniform, gaussian };

  Kind kind_;
  DType dtype_;
  std::int64_t cols_;
  double value_;
  double spread_;
  std::uint64_t seed_;
};

}  // namespace pleiad

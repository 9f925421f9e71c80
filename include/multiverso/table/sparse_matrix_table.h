// A matrix whose Get accepts options. It holds all rows, and a Get always fetches every row that it names.
#pragma once

#include <cstddef>
#include <vector>

#include "multiverso/table/matrix_table.h"

namespace multiverso {

template <typename T>
struct SparseMatrixOption;

/// See MatrixWorkerTable. A GetOption is accepted and has no effect.
template <typename T>
class SparseMatrixWorkerTable : public MatrixWorkerTable<T> {
 public:
  typedef MatrixWorkerTable<T> Base;

  /// Collective, like MV_CreateTable.
  SparseMatrixWorkerTable(integer_t num_row, integer_t num_col) : Base(num_row, num_col) {}
  explicit SparseMatrixWorkerTable(const SparseMatrixOption<T>& option)
      : SparseMatrixWorkerTable(option.num_row, option.num_col) {}

  void Get(T* data, std::size_t size, const GetOption* /*option*/ = nullptr) { Base::Get(data, size); }
  void Get(integer_t row_id, T* data, std::size_t size, const GetOption* /*option*/ = nullptr) {
    Base::Get(row_id, data, size);
  }
  void Get(const std::vector<integer_t>& row_ids, const std::vector<T*>& data_vec, std::size_t size,
           const GetOption* /*option*/ = nullptr) {
    Base::Get(row_ids, data_vec, size);
  }
};

template <typename T>
class SparseMatrixServerTable : public ServerTable {
 public:
  SparseMatrixServerTable(integer_t, integer_t, bool /*using_pipeline*/ = false) {}
  explicit SparseMatrixServerTable(const SparseMatrixOption<T>&) {}
};

template <typename T>
struct SparseMatrixOption {
  SparseMatrixOption() = default;
  SparseMatrixOption(integer_t rows, integer_t cols, bool pipeline = false)
      : num_row(rows), num_col(cols), using_pipeline(pipeline) {}
  integer_t num_row = 0;
  integer_t num_col = 0;
  bool using_pipeline = false;                         ///< no effect
  typedef SparseMatrixWorkerTable<T> WorkerTableType;  ///< the class that MV_CreateTable makes
  typedef SparseMatrixServerTable<T> ServerTableType;
};

}  // namespace multiverso

// A matrix made from a MatrixOption, dense or sparse. In Pleiad both hold all rows, and a Get always fetches every row
// that it names.
#pragma once

#include <cstddef>
#include <vector>

#include "multiverso/table/matrix_table.h"

namespace multiverso {

template <typename T>
struct MatrixOption;

/// See MatrixWorkerTable. A GetOption is accepted and has no effect.
template <typename T>
class MatrixWorker : public MatrixWorkerTable<T> {
 public:
  typedef MatrixWorkerTable<T> Base;

  /// Collective, like MV_CreateTable. `is_sparse` has no effect: Multiverso sends only the changed rows of a sparse
  /// table.
  MatrixWorker(integer_t num_row, integer_t num_col, bool /*is_sparse*/ = false) : Base(num_row, num_col) {}
  explicit MatrixWorker(const MatrixOption<T>& option)
      : MatrixWorker(option.num_row, option.num_col, option.is_sparse) {}

  void Get(T* data, std::size_t size, const GetOption* /*option*/ = nullptr) { Base::Get(data, size); }
  void Get(integer_t row_id, T* data, std::size_t size, const GetOption* /*option*/ = nullptr) {
    Base::Get(row_id, data, size);
  }
  void Get(const std::vector<integer_t>& row_ids, const std::vector<T*>& data_vec, std::size_t size,
           const GetOption* /*option*/ = nullptr) {
    Base::Get(row_ids, data_vec, size);
  }
  void Get(T* data, std::size_t size, integer_t* row_ids, integer_t row_ids_size,
           const GetOption* /*option*/ = nullptr) {
    Base::Get(data, size, row_ids, row_ids_size);
  }
};

template <typename T>
class MatrixServer : public ServerTable {
 public:
  MatrixServer(integer_t, integer_t, bool /*is_sparse*/ = false, bool /*is_pipeline*/ = false) {}
  explicit MatrixServer(const MatrixOption<T>&) {}
};

template <typename T>
struct MatrixOption {
  integer_t num_row = 0;
  integer_t num_col = 0;
  bool is_sparse = false;                   ///< no effect: see MatrixWorker
  bool is_pipeline = false;                 ///< no effect
  typedef MatrixWorker<T> WorkerTableType;  ///< the class that MV_CreateTable makes
  typedef MatrixServer<T> ServerTableType;
};

}  // namespace multiverso

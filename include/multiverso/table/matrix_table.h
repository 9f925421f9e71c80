// A matrix of values shared by all workers.
#pragma once

#include <cstddef>
#include <vector>

#include "multiverso/multiverso.h"
#include "multiverso/table/partition.h"
#include "multiverso/table_interface.h"
#include "multiverso/updater/updater.h"

namespace multiverso {

template <typename T>
struct MatrixTableOption;

/// `size` is the number of elements in `data`, or in each row if there is a vector of pointers. A get copies a repeated
/// row each time; an add sums the deltas of a repeated row; the list of rows may be empty. The buffers of GetAsync must
/// live until Wait; the caller may reuse those of AddAsync on return.
template <typename T>
class MatrixWorkerTable : public WorkerTable {
 public:
  /// Collective, like MV_CreateTable.
  MatrixWorkerTable(integer_t num_row, integer_t num_col)
      : WorkerTable(detail::TypeOf<T>(), true, num_row, num_col), rows_(num_row), cols_(num_col) {}
  explicit MatrixWorkerTable(const MatrixTableOption<T>& option) : MatrixWorkerTable(option.num_row, option.num_col) {}

  /// The whole table.
  void Get(T* data, std::size_t size) { get(detail::Rows(), data, size); }
  int GetAsync(T* data, std::size_t size) { return get_async(detail::Rows(), data, size); }
  void Add(T* data, std::size_t size, const AddOption* option = nullptr) { add(detail::Rows(), data, size, option); }
  int AddAsync(T* data, std::size_t size, const AddOption* option = nullptr) {
    return add_async(detail::Rows(), data, size, option);
  }

  /// One row; -1 stands for the whole table.
  void Get(integer_t row_id, T* data, std::size_t size) { get(one(row_id), data, size); }
  int GetAsync(integer_t row_id, T* data, std::size_t size) { return get_async(one(row_id), data, size); }
  void Add(integer_t row_id, T* data, std::size_t size, const AddOption* option = nullptr) {
    add(one(row_id), data, size, option);
  }
  int AddAsync(integer_t row_id, T* data, std::size_t size, const AddOption* option = nullptr) {
    return add_async(one(row_id), data, size, option);
  }

  /// Many rows, each in its own buffer.
  void Get(const std::vector<integer_t>& row_ids, const std::vector<T*>& data_vec, std::size_t size) {
    const std::vector<void*> buffers(data_vec.begin(), data_vec.end());
    get_apart(these(row_ids), buffers.data(), buffers.size(), size);
  }
  int GetAsync(const std::vector<integer_t>& row_ids, const std::vector<T*>& data_vec, std::size_t size) {
    const std::vector<void*> buffers(data_vec.begin(), data_vec.end());
    return get_apart_async(these(row_ids), buffers.data(), buffers.size(), size);
  }
  void Add(const std::vector<integer_t>& row_ids, const std::vector<T*>& data_vec, std::size_t size,
           const AddOption* option = nullptr) {
    const std::vector<const void*> buffers(data_vec.begin(), data_vec.end());
    add_apart(these(row_ids), buffers.data(), buffers.size(), size, option);
  }
  int AddAsync(const std::vector<integer_t>& row_ids, const std::vector<T*>& data_vec, std::size_t size,
               const AddOption* option = nullptr) {
    const std::vector<const void*> buffers(data_vec.begin(), data_vec.end());
    return add_apart_async(these(row_ids), buffers.data(), buffers.size(), size, option);
  }

  /// Many rows in one contiguous buffer: size == row_ids_size * columns.
  void Get(T* data, std::size_t size, integer_t* row_ids, integer_t row_ids_size) {
    get(these(row_ids, row_ids_size), data, size);
  }
  int GetAsync(T* data, std::size_t size, integer_t* row_ids, integer_t row_ids_size) {
    return get_async(these(row_ids, row_ids_size), data, size);
  }
  void Add(T* data, std::size_t size, integer_t* row_ids, integer_t row_ids_size, const AddOption* option = nullptr) {
    add(these(row_ids, row_ids_size), data, size, option);
  }
  int AddAsync(T* data, std::size_t size, integer_t* row_ids, integer_t row_ids_size,
               const AddOption* option = nullptr) {
    return add_async(these(row_ids, row_ids_size), data, size, option);
  }

  /// `kv` holds row ids, or -1 for the whole table; values (optional); options (optional). Splits the rows into equal
  /// consecutive runs, one per server.
  int Partition(const std::vector<Blob>& kv, MsgType, Partitions* out) const {
    CHECK(!kv.empty() && kv.size() <= 3 && out != nullptr);
    const bool all = kv[0].size<integer_t>() == 1 && kv[0].As<integer_t>() == -1;
    const auto rows = static_cast<std::size_t>(rows_);
    const std::size_t row_bytes = static_cast<std::size_t>(cols_) * sizeof(T);
    return all ? detail::PartitionWhole(kv, rows, row_bytes, out) : detail::PartitionRows(kv, rows, row_bytes, out);
  }

 private:
  integer_t rows_;
  integer_t cols_;

  static detail::Rows one(const integer_t& row_id) { return row_id == -1 ? detail::Rows() : detail::Rows(&row_id, 1); }
  static detail::Rows these(const std::vector<integer_t>& ids) {
    return detail::Rows(ids.data(), static_cast<std::int64_t>(ids.size()));
  }
  static detail::Rows these(const integer_t* ids, integer_t n) { return detail::Rows(ids, n); }
};

template <typename T>
class MatrixServerTable : public ServerTable {
 public:
  MatrixServerTable(integer_t, integer_t) {}
  explicit MatrixServerTable(const MatrixTableOption<T>&) {}
};

template <typename T>
struct MatrixTableOption {
  MatrixTableOption() = default;
  MatrixTableOption(integer_t rows, integer_t cols) : num_row(rows), num_col(cols) {}
  integer_t num_row = 0;
  integer_t num_col = 0;
  using WorkerTableType = MatrixWorkerTable<T>;  ///< the class that MV_CreateTable makes
  using ServerTableType = MatrixServerTable<T>;
};

}  // namespace multiverso

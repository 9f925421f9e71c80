// An array of values shared by all workers.
#pragma once

#include <cstddef>
#include <vector>

#include "multiverso/multiverso.h"
#include "multiverso/table/partition.h"
#include "multiverso/table_interface.h"
#include "multiverso/updater/updater.h"

namespace multiverso {

template <typename T>
struct ArrayTableOption;

/// In every call, `size` is the number of elements in `data`, and must be that of the table.
template <typename T>
class ArrayWorker : public WorkerTable {
 public:
  /// Collective, like MV_CreateTable.
  explicit ArrayWorker(std::size_t size)
      : WorkerTable(detail::TypeOf<T>(), false, 1, static_cast<std::int64_t>(size)), size_(size) {}
  explicit ArrayWorker(const ArrayTableOption<T>& option) : ArrayWorker(option.size) {}

  void Get(T* data, std::size_t size) { get(detail::Rows(), data, size); }
  /// `data` must live until Wait.
  int GetAsync(T* data, std::size_t size) { return get_async(detail::Rows(), data, size); }
  void Add(T* data, std::size_t size, const AddOption* option = nullptr) { add(detail::Rows(), data, size, option); }
  /// The caller may reuse `data` on return.
  int AddAsync(T* data, std::size_t size, const AddOption* option = nullptr) {
    return add_async(detail::Rows(), data, size, option);
  }

  /// `kv` holds the key -1, the values of the whole array (optional) and the options (optional). Splits the elements
  /// into equal consecutive runs, one per server.
  int Partition(const std::vector<Blob>& kv, MsgType, Partitions* out) const {
    CHECK(!kv.empty() && kv.size() <= 3 && out != nullptr);
    return detail::PartitionWhole(kv, size_, sizeof(T), out);
  }

 private:
  std::size_t size_;
};

template <typename T>
class ArrayServer : public ServerTable {
 public:
  explicit ArrayServer(std::size_t) {}
  explicit ArrayServer(const ArrayTableOption<T>&) {}
};

template <typename T>
struct ArrayTableOption {
  explicit ArrayTableOption(std::size_t s) : size(s) {}
  std::size_t size;
  using WorkerTableType = ArrayWorker<T>;  ///< the class that MV_CreateTable makes
  using ServerTableType = ArrayServer<T>;
};

}  // namespace multiverso

// The base classes of Multiverso's tables. These headers need only C++11.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "pleiad/api.h"
#include "pleiad/pleiad.h"

namespace multiverso {

typedef std::int32_t integer_t;

struct AddOption;
struct GetOption;

namespace detail {

/// Maps an element type of tables to its pleiad_dtype.
template <typename T>
constexpr int TypeOf() {
  static_assert(std::is_same<T, float>::value || std::is_same<T, double>::value || std::is_same<T, int>::value,
                "tables and MV_Aggregate are for float, double and int");
  return std::is_same<T, float>::value    ? PLEIAD_FLOAT32
         : std::is_same<T, double>::value ? PLEIAD_FLOAT64
                                          : PLEIAD_INT32;
}

/// The rows that a call refers to, or the whole table.
struct Rows {
  Rows() : all(true), ids(nullptr), n(0) {}
  Rows(const integer_t* first, std::int64_t number) : all(false), ids(first), n(number) {}

  bool all;
  const integer_t* ids;
  std::int64_t n;
};

}  // namespace detail

/// A worker's view of one table. The values belong to the session: they are released by MV_ShutDown, and later calls
/// fail. Any thread may call an asynchronous table; a synchronous one (flag `sync`) must be called by one thread at a
/// time, in the same order on every worker.
class PLEIAD_API WorkerTable {
 public:
  /// Drops pending operations: an add is still applied, and a get no longer writes to its buffer.
  virtual ~WorkerTable();
  WorkerTable(const WorkerTable&) = delete;
  WorkerTable& operator=(const WorkerTable&) = delete;

  /// Waits for the operation for which GetAsync or AddAsync returned `id`. May be called repeatedly.
  void Wait(int id);

  /// Returns false if the constructor failed; all calls then fail.
  bool created() const;

 protected:
  /// Collective. An array has one row.
  WorkerTable(int dtype, bool matrix, std::int64_t rows, std::int64_t cols);

  void get(detail::Rows rows, void* data, std::size_t size);
  void add(detail::Rows rows, const void* data, std::size_t size, const AddOption* option);
  int get_async(detail::Rows rows, void* data, std::size_t size);
  int add_async(detail::Rows rows, const void* data, std::size_t size, const AddOption* option);
  /// In these functions each row has its own buffer of `size` elements.
  void get_apart(detail::Rows rows, void* const* buffers, std::size_t n, std::size_t size);
  int get_apart_async(detail::Rows rows, void* const* buffers, std::size_t n, std::size_t size);
  void add_apart(detail::Rows rows, const void* const* buffers, std::size_t n, std::size_t size,
                 const AddOption* option);
  int add_apart_async(detail::Rows rows, const void* const* buffers, std::size_t n, std::size_t size,
                      const AddOption* option);

 private:
  struct Impl;
  Impl* impl_;
};

/// An empty class, for programs that name it. Pleiad's server side needs no object here: a shard is in memory that all
/// ranks of the host share.
class ServerTable {
 public:
  virtual ~ServerTable() = default;
};

}  // namespace multiverso

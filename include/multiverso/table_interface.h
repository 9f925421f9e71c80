// What the worker's halves of Multiverso's tables have in common. C++11 will do for these headers.
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

/// The element types that a table can hold, as pleiad.h numbers them.
template <typename T>
constexpr int TypeOf() {
  static_assert(std::is_same<T, float>::value || std::is_same<T, double>::value || std::is_same<T, int>::value,
                "tables and MV_Aggregate are for float, double and int");
  return std::is_same<T, float>::value    ? PLEIAD_FLOAT32
         : std::is_same<T, double>::value ? PLEIAD_FLOAT64
                                          : PLEIAD_INT32;
}

/// The rows that a call is about, or the whole table.
struct Rows {
  Rows() : all(true), ids(nullptr), n(0) {}
  Rows(const integer_t* first, std::int64_t number) : all(false), ids(first), n(number) {}

  bool all;
  const integer_t* ids;
  std::int64_t n;
};

}  // namespace detail

/// One table as a worker sees it. The numbers belong to the session: they are gone with MV_ShutDown, and calls after it
/// fail. Any thread may call an asynchronous table; a synchronous one (flag `sync`) is called by one thread at a time,
/// in the same order by every worker.
class PLEIAD_API WorkerTable {
 public:
  /// Forgets what was started: an add is carried out all the same, a get leaves its buffer alone from then on.
  virtual ~WorkerTable();
  WorkerTable(const WorkerTable&) = delete;
  WorkerTable& operator=(const WorkerTable&) = delete;

  /// Waits for what GetAsync or AddAsync started under this number. Waiting again is allowed.
  void Wait(int id);

  /// False where the constructor failed; all calls fail then.
  bool created() const;

 protected:
  /// Collective. An array has one row.
  WorkerTable(int dtype, bool matrix, std::int64_t rows, std::int64_t cols);

  void get(detail::Rows rows, void* data, std::size_t size);
  void add(detail::Rows rows, const void* data, std::size_t size, const AddOption* option);
  int get_async(detail::Rows rows, void* data, std::size_t size);
  int add_async(detail::Rows rows, const void* data, std::size_t size, const AddOption* option);
  /// Each row has a place of its own, of `size` elements.
  void get_apart(detail::Rows rows, void* const* places, std::size_t n, std::size_t size);
  int get_apart_async(detail::Rows rows, void* const* places, std::size_t n, std::size_t size);
  void add_apart(detail::Rows rows, const void* const* places, std::size_t n, std::size_t size,
                 const AddOption* option);
  int add_apart_async(detail::Rows rows, const void* const* places, std::size_t n, std::size_t size,
                      const AddOption* option);

 private:
  struct Inside;
  Inside* inside_;
};

/// The server's half needs no object here: a shard lies in memory that all ranks of the host share. The class stands
/// where programs name it.
class ServerTable {
 public:
  virtual ~ServerTable() = default;
};

}  // namespace multiverso

// The single session behind Multiverso's API, and its tables. This is the project's only global, because that API
// passes no handle.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "capi/mv_flags.h"
#include "core/function_ref.h"
#include "core/log.h"
#include "multiverso/table_interface.h"
#include "pleiad/pleiad.h"

namespace pleiad::mv {

/// A table of some session. Tables of the C API are never freed, because that API has no call for it. The table of a
/// session that has ended is therefore still recognised.
struct MvTable {
  pleiad_table* table = nullptr;
  int dtype = PLEIAD_FLOAT32;
  bool matrix = false;
  std::int64_t cols = 0;
};

/// A session from MV_Init to MV_ShutDown.
class OpenSession {
 public:
  OpenSession(const Flags& flags, std::string_view log_level);
  ~OpenSession();
  OpenSession(const OpenSession&) = delete;
  OpenSession& operator=(const OpenSession&) = delete;

  pleiad_session* session = nullptr;
  pleiad_world world{};
  std::unique_ptr<Log> log;
};

/// The functions of the API. They throw pleiad::Error, which run() turns into the behaviour that the API promises.
class World {
 public:
  [[nodiscard]] static World& instance();

  void init(int* argc, char** argv);
  void shut_down();
  void set_flag(std::string_view name, std::string_view value);
  /// Returns the open session for one call. Throws a StateError if there is none.
  [[nodiscard]] std::shared_ptr<OpenSession> use() const;
  /// The same, but returns null if there is none. Never blocks in a forked child.
  [[nodiscard]] std::shared_ptr<OpenSession> find() const noexcept;
  [[nodiscard]] bool in_forked_child() const noexcept;

  /// Collective.
  [[nodiscard]] MvTable* create(int dtype, bool matrix, std::int64_t rows, std::int64_t cols);
  /// Collective: creates a key-value table whose adds sum, with the clock that the flags select.
  [[nodiscard]] pleiad_table* create_key_value(int dtype);
  /// Called when the program no longer uses the table.
  void release(MvTable* table) noexcept;
  /// Returns the table of a program's handle. Throws if the handle is invalid.
  [[nodiscard]] const MvTable& table(const void* handle, bool matrix) const;

 private:
  World() = default;

  mutable std::mutex mutex_;
  std::shared_ptr<OpenSession> open_;  // guarded by mutex_
  Flags flags_;                        // guarded by mutex_; set by MV_SetFlag
  Flags current_;          // guarded by mutex_; flags_ and those of argv, for the tables of the open session
  bool starting_ = false;  // guarded by mutex_
  std::atomic<std::uint64_t> opened_in_{0};  // the fork generation of the open session plus one; 0 if there is none

  mutable std::shared_mutex tables_mutex_;
  std::unordered_set<const void*> tables_;  // guarded by tables_mutex_
};

/// Throws an exception for an error code of pleiad.h.
void check(int code);

/// Runs one function of the API. Logs an exception and stores it as the last error. Returns true on success.
bool run(std::string_view where, FunctionRef<void()> body) noexcept;

/// The rows of a call in the form of pleiad.h; valid until this thread's next call.
struct Ids {
  explicit Ids(::multiverso::detail::Rows rows);
  bool all;
  const std::int64_t* data;
  std::int64_t n;
};

void get(const MvTable& table, ::multiverso::detail::Rows rows, void* data, std::int64_t count);
void add(const MvTable& table, ::multiverso::detail::Rows rows, const void* data, std::int64_t count,
         const pleiad_add_options* options);
[[nodiscard]] pleiad_pending* get_async(const MvTable& table, ::multiverso::detail::Rows rows, void* data,
                                        std::int64_t count);
/// `pending` may be null.
void add_async(const MvTable& table, ::multiverso::detail::Rows rows, const void* data, std::int64_t count,
               const pleiad_add_options* options, pleiad_pending** pending);

/// Returns one field of the open world, or -1 with the last error set.
int world_field(std::string_view where, int32_t pleiad_world::* field);

}  // namespace pleiad::mv

// The one session that Multiverso's API stands for, and its tables. This is where the project's only global lives: the
// API has no handle to pass.
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

/// A table of some session. Those of the C API are never freed, because it has no call for that: a table of a session
/// that is over is still recognised.
struct MvTable {
  pleiad_table* table = nullptr;
  int dtype = PLEIAD_FLOAT32;
  bool matrix = false;
  std::int64_t cols = 0;
};

/// A session from MV_Init to MV_ShutDown.
class Open {
 public:
  Open(const Flags& flags, std::string_view log_level);
  ~Open();
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;

  pleiad_session* session = nullptr;
  pleiad_world world{};
  std::unique_ptr<Log> log;
};

/// The functions of the API. They throw pleiad::Error; run() makes it what the API promises.
class World {
 public:
  [[nodiscard]] static World& the();

  void init(int* argc, char** argv);
  void shut_down();
  void set_flag(std::string_view name, std::string_view value);
  /// The open session, for one call. Throws a StateError where there is none.
  [[nodiscard]] std::shared_ptr<Open> use() const;
  /// The same, or null. Never blocks in a forked child.
  [[nodiscard]] std::shared_ptr<Open> find() const noexcept;
  [[nodiscard]] bool in_forked_child() const noexcept;

  /// Collective.
  [[nodiscard]] MvTable* create(int dtype, bool matrix, std::int64_t rows, std::int64_t cols);
  /// Collective: a key-value table whose adds sum, with the clock that the flags name.
  [[nodiscard]] pleiad_table* create_key_value(int dtype);
  /// The program will not use the table any more.
  void release(MvTable* table) noexcept;
  /// What the program calls a table. Throws for what is none.
  [[nodiscard]] const MvTable& table(const void* handle, bool matrix) const;

 private:
  World() = default;

  mutable std::mutex mutex_;
  std::shared_ptr<Open> open_;  // guarded by mutex_
  Flags flags_;                 // guarded by mutex_; what MV_SetFlag said
  Flags present_;               // guarded by mutex_; the same with what argv said, for the tables of the open session
  bool starting_ = false;       // guarded by mutex_
  std::atomic<std::uint64_t> opened_in_{0};  // a generation of forks, plus one; 0 where nothing is open

  mutable std::shared_mutex tables_mutex_;
  std::unordered_set<const void*> tables_;  // guarded by tables_mutex_
};

/// Turns a code of pleiad.h into an exception.
void check(int code);

/// Runs one function of the API. What it throws is logged and becomes the last error. True where all went well.
bool run(std::string_view where, FunctionRef<void()> body) noexcept;

/// The rows that a call is about, as pleiad.h takes them; valid until this thread's next call.
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

/// One of the numbers of the open world, or -1 with the last error set.
int world_number(std::string_view where, int32_t pleiad_world::* field);

}  // namespace pleiad::mv

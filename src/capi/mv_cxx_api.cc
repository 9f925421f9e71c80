// The functions of multiverso/multiverso.h and the base class of its tables.
#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <vector>

#include <fmt/format.h>

#include "capi/guard.h"
#include "capi/mv_world.h"
#include "multiverso/c_api.h"
#include "multiverso/multiverso.h"
#include "multiverso/updater/updater.h"

namespace multiverso {

using pleiad::mv::check;
using pleiad::mv::MvTable;
using pleiad::mv::run;
using pleiad::mv::World;
using pleiad::mv::world_field;

namespace {

int refuse_net(std::string_view where) {
  run(where, [&] {
    throw pleiad::StateError("a launcher (mpirun, srun) starts the world and assigns the ranks; remove this call");
  });
  return -1;
}

std::size_t bytes_of(int dtype) { return pleiad::size_of(static_cast<pleiad::DType>(dtype)); }

pleiad_add_options options_of(const AddOption& option) {
  return {.set = PLEIAD_SET_LEARNING_RATE | PLEIAD_SET_MOMENTUM | PLEIAD_SET_RHO | PLEIAD_SET_LAMBDA,
          .learning_rate = option.learning_rate(),
          .momentum = option.momentum(),
          .rho = option.rho(),
          .lambda = option.lambda()};
}

template <class T>
void check_apart(const MvTable& table, detail::Rows rows, T* const* buffers, std::size_t n, std::size_t size) {
  if (static_cast<std::int64_t>(n) != rows.n) {
    throw pleiad::InvalidArgument(
        fmt::format("expected one pointer for each of the {} row ids; received {} pointers", rows.n, n));
  }
  if (static_cast<std::int64_t>(size) != table.cols) {
    throw pleiad::InvalidArgument(fmt::format("expected rows of {} values; received a size of {}", table.cols, size));
  }
  const auto* const null = std::find(buffers, buffers + n, nullptr);
  if (null != buffers + n)
    throw pleiad::InvalidArgument(fmt::format("the pointer at position {} is null", null - buffers));
}

}  // namespace

void MV_Init(int* argc, char* argv[]) { ::MV_Init(argc, argv); }
void MV_Barrier() { ::MV_Barrier(); }
void MV_ShutDown(bool /*finalize_net*/) { ::MV_ShutDown(); }
int MV_Rank() { return world_field("MV_Rank", &pleiad_world::rank); }
int MV_Size() { return world_field("MV_Size", &pleiad_world::size); }
int MV_NumWorkers() { return ::MV_NumWorkers(); }
int MV_NumServers() { return world_field("MV_NumServers", &pleiad_world::servers); }
int MV_WorkerId() { return ::MV_WorkerId(); }
int MV_ServerId() { return ::MV_ServerId(); }

int MV_WorkerIdToRank(int worker_id) {
  int rank = -1;
  run("MV_WorkerIdToRank",
      [&] { check(pleiad_session_worker_rank(World::instance().use()->session, worker_id, &rank)); });
  return rank;
}

int MV_ServerIdToRank(int server_id) {
  int rank = -1;
  run("MV_ServerIdToRank",
      [&] { check(pleiad_session_server_rank(World::instance().use()->session, server_id, &rank)); });
  return rank;
}

int MV_NetBind(int, char*) { return refuse_net("MV_NetBind"); }
int MV_NetConnect(int*, char*[], int) { return refuse_net("MV_NetConnect"); }
void MV_NetFinalize() {}

namespace detail {

void SetFlag(const char* name, const char* value) {
  run("MV_SetFlag", [&] { World::instance().set_flag(name, value); });
}

void Aggregate(void* data, std::int64_t count, int dtype) {
  run("MV_Aggregate",
      [&] { check(pleiad_all_reduce(World::instance().use()->session, data, count, dtype, PLEIAD_SUM)); });
}

int WorkerIdOrNone() {
  const auto open = World::instance().find();
  return open == nullptr ? -1 : open->world.worker_id;
}

}  // namespace detail

// The pending operations of a worker. Completed ones are removed, so that a program that never waits for its adds does
// not fill the memory.
struct WorkerTable::Impl {
  struct PendingCall {
    pleiad_pending* pending = nullptr;
    // For a get whose rows have separate buffers: the received rows, and the buffers to copy them to.
    std::vector<char> rows;
    std::vector<void*> buffers;

    void finish(std::size_t row_bytes) {
      const bool fine = run("Wait", [&] { check(pleiad_pending_wait(pending)); });
      pleiad_pending_free(pending);
      if (!fine) return;
      for (std::size_t i = 0; i < buffers.size(); ++i) std::memcpy(buffers[i], rows.data() + i * row_bytes, row_bytes);
    }
  };

  static constexpr std::size_t kSweepFrom = 64;

  MvTable* table = nullptr;
  std::mutex mutex;
  std::map<int, PendingCall> calls;   // guarded by mutex
  int next = 0;                       // guarded by mutex
  std::size_t sweep_at = kSweepFrom;  // guarded by mutex

  const MvTable& use() const {
    if (table == nullptr) throw pleiad::StateError("the table could not be created");
    return World::instance().table(table, table->matrix);
  }

  [[nodiscard]] std::size_t row_bytes() const { return static_cast<std::size_t>(table->cols) * bytes_of(table->dtype); }

  int keep(PendingCall what) {
    const std::lock_guard lock(mutex);
    const int id = next;
    next = next == std::numeric_limits<int>::max() ? 0 : next + 1;
    if (done(what)) {
      what.finish(row_bytes());
      return id;
    }
    if (calls.size() >= sweep_at) {
      for (auto at = calls.begin(); at != calls.end();) {
        if (!done(at->second)) {
          ++at;
          continue;
        }
        at->second.finish(row_bytes());
        at = calls.erase(at);
      }
      sweep_at = std::max(kSweepFrom, 2 * calls.size());
    }
    calls[id] = std::move(what);
    return id;
  }

  static bool done(const PendingCall& what) {
    std::int32_t is_done = 0;
    return pleiad_pending_done(what.pending, &is_done) != PLEIAD_OK || is_done != 0;
  }

  // Runs a call that may start an operation. Returns -1 if it failed.
  template <class F>
  int start(std::string_view where, F&& begin) {
    int id = -1;
    run(where, [&] { id = keep(begin(use())); });
    return id;
  }
};

WorkerTable::WorkerTable(int dtype, bool matrix, std::int64_t rows, std::int64_t cols) : impl_(new Impl) {
  run("MV_CreateTable", [&] { impl_->table = World::instance().create(dtype, matrix, rows, cols); });
}

WorkerTable::~WorkerTable() {
  for (auto& [id, what] : impl_->calls) pleiad_pending_free(what.pending);
  World::instance().release(impl_->table);
  delete impl_;
}

bool WorkerTable::created() const { return impl_->table != nullptr; }

void WorkerTable::Wait(int id) {
  Impl::PendingCall what;
  const bool found = run("Wait", [&] {
    (void)impl_->use();
    const std::lock_guard lock(impl_->mutex);
    const auto at = impl_->calls.find(id);
    if (at != impl_->calls.end()) {
      what = std::move(at->second);
      impl_->calls.erase(at);
    } else if (id < 0 || id >= impl_->next) {
      throw pleiad::InvalidArgument(
          fmt::format("unknown operation id {}; expected one that an asynchronous call returned", id));
    }
  });
  if (found && what.pending != nullptr) what.finish(impl_->row_bytes());
}

void WorkerTable::get(detail::Rows rows, void* data, std::size_t size) {
  run("Get", [&] { pleiad::mv::get(impl_->use(), rows, data, static_cast<std::int64_t>(size)); });
}

void WorkerTable::add(detail::Rows rows, const void* data, std::size_t size, const AddOption* option) {
  run("Add", [&] {
    const pleiad_add_options options = option == nullptr ? pleiad_add_options{} : options_of(*option);
    pleiad::mv::add(impl_->use(), rows, data, static_cast<std::int64_t>(size), &options);
  });
}

int WorkerTable::get_async(detail::Rows rows, void* data, std::size_t size) {
  return impl_->start("GetAsync", [&](const MvTable& table) {
    return Impl::PendingCall{.pending = pleiad::mv::get_async(table, rows, data, static_cast<std::int64_t>(size)),
                             .rows = {},
                             .buffers = {}};
  });
}

int WorkerTable::add_async(detail::Rows rows, const void* data, std::size_t size, const AddOption* option) {
  return impl_->start("AddAsync", [&](const MvTable& table) {
    const pleiad_add_options options = option == nullptr ? pleiad_add_options{} : options_of(*option);
    Impl::PendingCall what;
    pleiad::mv::add_async(table, rows, data, static_cast<std::int64_t>(size), &options, &what.pending);
    return what;
  });
}

void WorkerTable::get_apart(detail::Rows rows, void* const* buffers, std::size_t n, std::size_t size) {
  run("Get", [&] {
    const MvTable& table = impl_->use();
    check_apart(table, rows, buffers, n, size);
    std::vector<char> all(n * impl_->row_bytes());
    pleiad::mv::get(table, rows, all.data(), static_cast<std::int64_t>(n * size));
    for (std::size_t i = 0; i < n; ++i)
      std::memcpy(buffers[i], all.data() + i * impl_->row_bytes(), impl_->row_bytes());
  });
}

int WorkerTable::get_apart_async(detail::Rows rows, void* const* buffers, std::size_t n, std::size_t size) {
  return impl_->start("GetAsync", [&](const MvTable& table) {
    check_apart(table, rows, buffers, n, size);
    Impl::PendingCall what;
    what.rows.resize(n * impl_->row_bytes());
    what.buffers.assign(buffers, buffers + n);
    what.pending = pleiad::mv::get_async(table, rows, what.rows.data(), static_cast<std::int64_t>(n * size));
    return what;
  });
}

namespace {

std::vector<char> joined(const void* const* buffers, std::size_t n, std::size_t row_bytes) {
  std::vector<char> all(n * row_bytes);
  for (std::size_t i = 0; i < n; ++i) std::memcpy(all.data() + i * row_bytes, buffers[i], row_bytes);
  return all;
}

}  // namespace

void WorkerTable::add_apart(detail::Rows rows, const void* const* buffers, std::size_t n, std::size_t size,
                            const AddOption* option) {
  run("Add", [&] {
    const MvTable& table = impl_->use();
    check_apart(table, rows, buffers, n, size);
    const pleiad_add_options options = option == nullptr ? pleiad_add_options{} : options_of(*option);
    const std::vector<char> all = joined(buffers, n, impl_->row_bytes());
    pleiad::mv::add(table, rows, all.data(), static_cast<std::int64_t>(n * size), &options);
  });
}

int WorkerTable::add_apart_async(detail::Rows rows, const void* const* buffers, std::size_t n, std::size_t size,
                                 const AddOption* option) {
  return impl_->start("AddAsync", [&](const MvTable& table) {
    check_apart(table, rows, buffers, n, size);
    const pleiad_add_options options = option == nullptr ? pleiad_add_options{} : options_of(*option);
    const std::vector<char> all = joined(buffers, n, impl_->row_bytes());
    Impl::PendingCall what;
    pleiad::mv::add_async(table, rows, all.data(), static_cast<std::int64_t>(n * size), &options, &what.pending);
    return what;
  });
}

}  // namespace multiverso

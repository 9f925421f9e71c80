// The functions of multiverso/c_api.h.
#include "multiverso/c_api.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>

#include "capi/guard.h"
#include "capi/mv_world.h"
#include "core/process.h"

using multiverso::detail::Rows;
using pleiad::mv::check;
using pleiad::mv::MvTable;
using pleiad::mv::run;
using pleiad::mv::World;
using pleiad::mv::world_field;

namespace {

// If MV_Init failed and the program never read the error, it must not exit with code 0: its launcher and its user would
// mistake its output for a result.
std::atomic<bool> init_failed{false};
std::atomic<std::uint64_t> reads_at_failure{0};
std::atomic<std::uint64_t> failed_in{0};  // a fork generation

void at_exit(int status, void* /*unused*/) {
  if (status != 0 || !init_failed.exchange(false) || failed_in.load() != pleiad::fork_generation()) return;
  // On Linux, a handler may call exit again: the remaining handlers run once, and the process ends with code 1.
  if (pleiad::error_reads() == reads_at_failure.load()) std::exit(1);
}

void note_failed_init() {
  reads_at_failure.store(pleiad::error_reads());
  failed_in.store(pleiad::fork_generation());
  init_failed.store(true);
  static const int registered = on_exit(at_exit, nullptr);
  (void)registered;
}

void create(std::string_view where, bool matrix, int rows, int cols, TableHandler* out) {
  run(where, [&] {
    TableHandler& to = pleiad::need(out, where, "the result");
    MvTable* const made = World::instance().create(PLEIAD_FLOAT32, matrix, rows, cols);
    to = World::instance().use()->world.worker_id < 0 ? nullptr : made;
  });
}

void get(std::string_view where, TableHandler handler, bool matrix, Rows rows, float* data, int size) {
  run(where, [&] { pleiad::mv::get(World::instance().table(handler, matrix), rows, data, size); });
}

void add(std::string_view where, TableHandler handler, bool matrix, Rows rows, const float* data, int size) {
  run(where, [&] { pleiad::mv::add(World::instance().table(handler, matrix), rows, data, size, nullptr); });
}

void add_async(std::string_view where, TableHandler handler, bool matrix, Rows rows, const float* data, int size) {
  run(where,
      [&] { pleiad::mv::add_async(World::instance().table(handler, matrix), rows, data, size, nullptr, nullptr); });
}

}  // namespace

extern "C" {

void MV_Init(int* argc, char* argv[]) {
  const bool started = run("MV_Init", [&] { World::instance().init(argc, argv); });
  if (started) {
    init_failed.store(false);
  } else if (World::instance().find() == nullptr) {  // after a failed second MV_Init, the session continues
    note_failed_init();
  }
}

void MV_ShutDown(void) {
  run("MV_ShutDown", [] { World::instance().shut_down(); });
}

void MV_Barrier(void) {
  run("MV_Barrier", [] { check(pleiad_barrier(World::instance().use()->session)); });
}

int MV_NumWorkers(void) { return world_field("MV_NumWorkers", &pleiad_world::workers); }
int MV_WorkerId(void) { return world_field("MV_WorkerId", &pleiad_world::worker_id); }
int MV_ServerId(void) { return world_field("MV_ServerId", &pleiad_world::server_id); }

void MV_NewArrayTable(int size, TableHandler* out) { create("MV_NewArrayTable", false, 1, size, out); }
void MV_NewMatrixTable(int num_row, int num_col, TableHandler* out) {
  create("MV_NewMatrixTable", true, num_row, num_col, out);
}

void MV_GetArrayTable(TableHandler handler, float* data, int size) {
  get("MV_GetArrayTable", handler, false, Rows(), data, size);
}
void MV_AddArrayTable(TableHandler handler, float* data, int size) {
  add("MV_AddArrayTable", handler, false, Rows(), data, size);
}
void MV_AddAsyncArrayTable(TableHandler handler, float* data, int size) {
  add_async("MV_AddAsyncArrayTable", handler, false, Rows(), data, size);
}

void MV_GetMatrixTableAll(TableHandler handler, float* data, int size) {
  get("MV_GetMatrixTableAll", handler, true, Rows(), data, size);
}
void MV_AddMatrixTableAll(TableHandler handler, float* data, int size) {
  add("MV_AddMatrixTableAll", handler, true, Rows(), data, size);
}
void MV_AddAsyncMatrixTableAll(TableHandler handler, float* data, int size) {
  add_async("MV_AddAsyncMatrixTableAll", handler, true, Rows(), data, size);
}

void MV_GetMatrixTableByRows(TableHandler handler, float* data, int size, int row_ids[], int row_ids_n) {
  get("MV_GetMatrixTableByRows", handler, true, Rows(row_ids, row_ids_n), data, size);
}
void MV_AddMatrixTableByRows(TableHandler handler, float* data, int size, int row_ids[], int row_ids_n) {
  add("MV_AddMatrixTableByRows", handler, true, Rows(row_ids, row_ids_n), data, size);
}
void MV_AddAsyncMatrixTableByRows(TableHandler handler, float* data, int size, int row_ids[], int row_ids_n) {
  add_async("MV_AddAsyncMatrixTableByRows", handler, true, Rows(row_ids, row_ids_n), data, size);
}

}  // extern "C"

// The functions of pleiad.h for tables and pending operations.
#include <span>

#include <fmt/format.h>

#include "capi/guard.h"
#include "capi/handles.h"
#include "core/option_list.h"
#include "updater/updater.h"

using pleiad::AddOptions;
using pleiad::checked_dtype;
using pleiad::checked_view;
using pleiad::ConstView;
using pleiad::guarded;
using pleiad::InvalidArgument;
using pleiad::keep_text;
using pleiad::need;
using pleiad::Selection;
using pleiad::Table;
using pleiad::TableSpec;
using pleiad::View;

namespace {

AddOptions options_of(const pleiad_add_options* options) {
  if (options == nullptr) return {};
  constexpr std::uint32_t kKnown = PLEIAD_SET_LEARNING_RATE | PLEIAD_SET_MOMENTUM | PLEIAD_SET_RHO | PLEIAD_SET_LAMBDA;
  if ((options->set & ~kKnown) != 0) {
    throw InvalidArgument(fmt::format("[add] options.set has unknown bits: {:#x}", options->set & ~kKnown));
  }
  AddOptions chosen;
  if ((options->set & PLEIAD_SET_LEARNING_RATE) != 0) chosen.learning_rate = options->learning_rate;
  if ((options->set & PLEIAD_SET_MOMENTUM) != 0) chosen.momentum = options->momentum;
  if ((options->set & PLEIAD_SET_RHO) != 0) chosen.rho = options->rho;
  if ((options->set & PLEIAD_SET_LAMBDA) != 0) chosen.lambda = options->lambda;
  return chosen;
}

// The checked arguments of one call: table, rows and buffer.
struct TableCall {
  TableCall(pleiad_table* handle, std::string_view where, const void* data, std::int64_t count, int dtype)
      : table(need(handle, where, "table").use(where)),
        numbers(checked_view(data, count, dtype, where, "the buffer")) {}

  TableCall(pleiad_table* handle, std::string_view where, const std::int64_t* ids, std::int64_t n, const void* data,
            std::int64_t count, int dtype)
      : TableCall(handle, where, data, count, dtype) {
    if (!table->spec().matrix)
      throw InvalidArgument(fmt::format("[{}] table \"{}\" is an array and has no rows", where, table->name()));
    if (n < 0) throw InvalidArgument(fmt::format("[{}] expected 0 or more row ids; received {}", where, n));
    if (n > 0) (void)need(ids, where, "the row ids");
    selection = {.all = false, .ids = {ids, static_cast<std::size_t>(n)}};
  }

  pleiad::TableLease table;
  Selection selection;
  View numbers;
};

pleiad::TableLease rows_of(pleiad_table* handle, std::string_view where) {
  auto table = need(handle, where, "table").find(where);
  if (table->spec().matrix) return pleiad::TableLease(std::move(table));
  throw InvalidArgument(fmt::format("[{}] table \"{}\" is an array and has no rows", where, table->name()));
}

Table& array_of(const TableCall& call, std::string_view where) {
  if (call.table->spec().matrix) {
    throw InvalidArgument(fmt::format("[{}] expected an array; table \"{}\" is a matrix", where, call.table->name()));
  }
  return *call.table;
}

// Returns a handle for a pending operation. The handle of a call that has already succeeded holds nothing.
pleiad_pending* handle_of(const pleiad_table& table, pleiad::Pending started) {
  auto handle = std::make_unique<pleiad_pending>();
  handle->session = table.session;
  // The error of a failed operation stays with the operation until it is waited for, because the handle may be freed
  // first.
  if (started.done() && !started.failed()) return handle.release();
  handle->operation = std::make_shared<pleiad::Pending>(std::move(started));
  if (!table.session->enlist(handle.get())) handle->give_up();
  return handle.release();
}

void start_get(const pleiad_table& handle, const TableCall& call, pleiad_pending*& out) {
  // The engine must live until the operation is registered with the session.
  const auto core = handle.session->use("get_async");
  out = handle_of(handle, call.table->get_async(call.selection, call.numbers));
}

void start_add(const pleiad_table& handle, const TableCall& call, const AddOptions& options, pleiad_pending** out) {
  const auto core = handle.session->use("add_async");
  pleiad::Pending started = call.table->add_async(call.selection, call.numbers, options);
  if (out != nullptr) *out = handle_of(handle, std::move(started));
}

void read_options(TableSpec& spec, int dtype, const char* options, std::string_view where) {
  spec.options.dtype = checked_dtype(dtype, where);
  if (options != nullptr) pleiad::set_options(spec.options, options);
  if (spec.options.dtype != static_cast<pleiad::DType>(dtype)) {
    throw InvalidArgument(
        fmt::format("[{}] expected the same dtype in the argument and in the options; received {} and {}", where,
                    name_of(static_cast<pleiad::DType>(dtype)), name_of(spec.options.dtype)));
  }
}

int create(pleiad_session* session, TableSpec spec, int dtype, const char* options, const void* initial,
           pleiad_table** out) {
  const std::string where = std::string(spec.kind()) + "_create";
  return guarded([&] {
    pleiad_table*& to = need(out, where, "the result");
    const auto& owner = need(session, where, "session").session;
    const auto core = owner->use(where);
    try {
      read_options(spec, dtype, options, where);
    } catch (const InvalidArgument& mistake) {
      core->refuse_table(mistake.what());  // the other ranks are waiting in their create calls
    }
    ConstView values;
    std::int64_t size = 0;  // the core reports tables that are too large
    if (initial != nullptr && !__builtin_mul_overflow(spec.rows, spec.cols, &size))
      values = {initial, size, spec.options.dtype};
    auto handle = std::make_unique<pleiad_table>();
    handle->session = owner;
    handle->table = owner->create(std::move(spec), values);
    to = handle.release();
  });
}

}  // namespace

extern "C" {

int pleiad_array_create(pleiad_session* session, int64_t size, int dtype, const char* options, const void* initial,
                        pleiad_table** out) {
  return create(session, {.matrix = false, .rows = 1, .cols = size, .options = {}}, dtype, options, initial, out);
}

int pleiad_matrix_create(pleiad_session* session, int64_t rows, int64_t cols, int dtype, const char* options,
                         const void* initial, pleiad_table** out) {
  return create(session, {.matrix = true, .rows = rows, .cols = cols, .options = {}}, dtype, options, initial, out);
}

int pleiad_sparse_create(pleiad_session* session, int64_t cols, int dtype, const char* options, pleiad_table** out) {
  return create(session, {.matrix = true, .rows = 0, .cols = cols, .options = {}, .sparse = true}, dtype, options,
                nullptr, out);
}

int pleiad_key_value_create(pleiad_session* session, int64_t width, int dtype, const char* options,
                            pleiad_table** out) {
  return create(session, {.matrix = true, .rows = 0, .cols = width, .options = {}, .sparse = true, .key_value = true},
                dtype, options, nullptr, out);
}

int pleiad_table_refuse(pleiad_session* session, const char* why) {
  return guarded([&] {
    const auto core = need(session, "table_refuse", "session").session->use("table_refuse");
    core->refuse_table(&need(why, "table_refuse", "the error"));
  });
}

void pleiad_table_free(pleiad_table* table) {
  if (table == nullptr || table->session->in_forked_child()) return;
  (void)guarded([&] { table->session->release(table->table); });
  delete table;
}

int pleiad_table_close(pleiad_table* table) {
  return guarded([&] {
    const pleiad_table& handle = need(table, "close", "table");
    const auto core = handle.session->use("close");
    const auto strong = handle.find("close");
    strong->close();
    handle.session->release(handle.table);
  });
}

int pleiad_updater_check(const char* options) {
  return guarded([&] {
    pleiad::TableOptions read;
    if (options == nullptr) throw InvalidArgument("[updater_check] the options are null");
    pleiad::set_options(read, options);
    (void)pleiad::make_updater(read.updater, pleiad::DType::float32);
  });
}

int pleiad_table_describe(const pleiad_table* table, pleiad_table_info* out) {
  return guarded([&] {
    pleiad_table_info& to = need(out, "describe", "the result");
    const auto strong = need(table, "describe", "table").find("describe");
    const TableSpec& spec = strong->spec();
    to = {.rows = spec.rows,
          .cols = spec.cols,
          .dtype = static_cast<int32_t>(spec.options.dtype),
          .matrix = spec.key_value ? 3
                    : spec.sparse  ? 2
                    : spec.matrix  ? 1
                                   : 0,
          .id = strong->id()};
  });
}

int pleiad_table_name(const pleiad_table* table, const char** text) {
  return guarded([&] {
    const char*& to = need(text, "name", "the result");
    to = keep_text(need(table, "name", "table").find("name")->name());
  });
}

int pleiad_table_shard(const pleiad_table* table, int32_t server, int64_t* begin, int64_t* end) {
  return guarded([&] {
    std::int64_t& first = need(begin, "shard", "begin");
    std::int64_t& last = need(end, "shard", "end");
    // This works for arrays and matrices alike.
    const auto [from, to] = pleiad::ArrayTable(need(table, "shard", "table").find("shard")).shard(server);
    first = from;
    last = to;
  });
}

int pleiad_table_get_stats(const pleiad_table* table, pleiad_table_stats* out) {
  return guarded([&] {
    pleiad_table_stats& to = need(out, "get_stats", "the result");
    const pleiad::TableStats s = need(table, "get_stats", "table").use("get_stats")->stats();
    to = {.adds = s.adds,
          .gets = s.gets,
          .bytes_added = s.bytes_added,
          .bytes_got = s.bytes_got,
          .add_seconds = s.add_seconds,
          .get_seconds = s.get_seconds,
          .wait_seconds = s.wait_seconds,
          .torn_stripes = s.torn_stripes};
  });
}

int pleiad_table_get(pleiad_table* table, void* out, int64_t count, int dtype) {
  return guarded([&] {
    const TableCall call(table, "get", out, count, dtype);
    call.table->get(call.selection, call.numbers);
  });
}

int pleiad_table_add(pleiad_table* table, const void* delta, int64_t count, int dtype,
                     const pleiad_add_options* options) {
  return guarded([&] {
    const TableCall call(table, "add", delta, count, dtype);
    call.table->add(call.selection, call.numbers, options_of(options));
  });
}

int pleiad_table_add_get(pleiad_table* table, const void* delta, void* out, int64_t count, int dtype,
                         const pleiad_add_options* options) {
  return guarded([&] {
    const TableCall call(table, "add_get", delta, count, dtype);
    array_of(call, "add_get")
        .add_get(call.numbers, checked_view(out, count, dtype, "add_get", "out"), options_of(options));
  });
}

int pleiad_table_exchange(pleiad_table* table, void* values, void* last, int64_t count, int dtype,
                          const pleiad_add_options* options) {
  return guarded([&] {
    const TableCall call(table, "exchange", values, count, dtype);
    array_of(call, "exchange")
        .exchange(call.numbers, checked_view(last, count, dtype, "exchange", "last"), options_of(options));
  });
}

int pleiad_table_get_rows(pleiad_table* table, const int64_t* ids, int64_t n, void* out, int64_t count, int dtype) {
  return guarded([&] {
    const TableCall call(table, "get_rows", ids, n, out, count, dtype);
    call.table->get(call.selection, call.numbers);
  });
}

int pleiad_table_add_rows(pleiad_table* table, const int64_t* ids, int64_t n, const void* delta, int64_t count,
                          int dtype, const pleiad_add_options* options) {
  return guarded([&] {
    const TableCall call(table, "add_rows", ids, n, delta, count, dtype);
    call.table->add(call.selection, call.numbers, options_of(options));
  });
}

int pleiad_table_get_async(pleiad_table* table, void* out, int64_t count, int dtype, pleiad_pending** pending) {
  return guarded([&] {
    pleiad_pending*& to = need(pending, "get_async", "the result");
    const TableCall call(table, "get_async", out, count, dtype);
    start_get(*table, call, to);
  });
}

int pleiad_table_add_async(pleiad_table* table, const void* delta, int64_t count, int dtype,
                           const pleiad_add_options* options, pleiad_pending** pending) {
  return guarded([&] {
    const TableCall call(table, "add_async", delta, count, dtype);
    start_add(*table, call, options_of(options), pending);
  });
}

int pleiad_table_get_rows_async(pleiad_table* table, const int64_t* ids, int64_t n, void* out, int64_t count, int dtype,
                                pleiad_pending** pending) {
  return guarded([&] {
    pleiad_pending*& to = need(pending, "get_rows_async", "the result");
    const TableCall call(table, "get_rows_async", ids, n, out, count, dtype);
    start_get(*table, call, to);
  });
}

int pleiad_table_add_rows_async(pleiad_table* table, const int64_t* ids, int64_t n, const void* delta, int64_t count,
                                int dtype, const pleiad_add_options* options, pleiad_pending** pending) {
  return guarded([&] {
    const TableCall call(table, "add_rows_async", ids, n, delta, count, dtype);
    start_add(*table, call, options_of(options), pending);
  });
}

int pleiad_table_rows(pleiad_table* table, int64_t* rows) {
  return guarded([&] {
    std::int64_t& to = need(rows, "rows", "the result");
    to = rows_of(table, "rows")->rows();
  });
}

int pleiad_table_evict(pleiad_table* table, int64_t* gone) {
  return guarded([&] {
    const std::int64_t count = rows_of(table, "evict")->evict();
    if (gone != nullptr) *gone = count;
  });
}

int pleiad_table_get_changed(pleiad_table* table, pleiad_take_rows take, void* data) {
  return guarded([&] {
    if (take == nullptr) throw InvalidArgument("[get_changed] take: received a null pointer");
    const pleiad::ChangedRows changed = rows_of(table, "get_changed")->get_changed();
    take(data, changed.ids.data(), static_cast<std::int64_t>(changed.ids.size()), changed.bytes.data());
  });
}

int pleiad_pending_wait(pleiad_pending* pending) {
  return guarded([&] { need(pending, "wait", "pending").finish(); });
}

int pleiad_pending_done(const pleiad_pending* pending, int32_t* done) {
  return guarded([&] {
    std::int32_t& to = need(done, "done", "the result");
    const pleiad_pending& asked = need(pending, "done", "pending");
    (void)asked.session->use_if_open("done");
    const std::lock_guard lock(asked.mutex);
    to = asked.operation == nullptr || asked.operation->done() ? 1 : 0;
  });
}

void pleiad_pending_free(pleiad_pending* pending) {
  if (pending == nullptr || pending->session->in_forked_child()) return;
  (void)guarded([&] {
    // an operation refers to its engine, so keep the engine alive
    const auto core = pending->session->use_if_open("free");
    pending->session->delist(pending);
    const std::lock_guard lock(pending->mutex);
    pending->operation.reset();
  });
  delete pending;
}

}  // extern "C"

#include "capi/mv_world.h"

#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "capi/guard.h"
#include "core/option_list.h"
#include "core/process.h"
#include "core/text.h"

namespace pleiad::mv {

namespace {

// The log level of the session, for which the environment takes precedence too.
std::string log_level_of(const Flags& flags) {
  SessionOptions options;
  set_options(options, flags.session_options());
  read_environment(options);
  return options.log_level;
}

void write_to_stderr(std::string_view line) noexcept {
  try {
    const std::string text = fmt::format("multiverso: {}\n", line);
    (void)!write(STDERR_FILENO, text.data(), text.size());
  } catch (...) {  // NOLINT(bugprone-empty-catch): there is not enough memory to print the message
  }
}

}  // namespace

void check(int code) {
  if (code != PLEIAD_OK) throw Error(static_cast<ErrorKind>(code), peek_last_error());
}

bool run(std::string_view where, FunctionRef<void()> body) noexcept {
  if (guarded(body) == PLEIAD_OK) return true;
  try {
    const auto open = World::instance().in_forked_child() ? nullptr : World::instance().find();
    const std::string line = fmt::format("{}: {}", where, peek_last_error());
    if (open != nullptr) {
      open->log->error(line);
    } else {
      write_to_stderr(line);
    }
  } catch (...) {
    write_to_stderr(peek_last_error());
  }
  return false;
}

OpenSession::OpenSession(const Flags& flags, std::string_view log_level) {
  check(pleiad_session_start(flags.session_options().c_str(), &session));
  try {
    check(pleiad_session_world(session, &world));
    const char* host = nullptr;
    check(pleiad_session_host_name(session, world.rank, &host));
    log = std::make_unique<Log>(log_level, world.rank, world.size, host);
  } catch (...) {
    pleiad_session_free(session);
    throw;
  }
}

OpenSession::~OpenSession() { pleiad_session_free(session); }

World& World::instance() {
  // Never destroyed: the program may call it until the very end of the process.
  static World* const world = new World;
  return *world;
}

bool World::in_forked_child() const noexcept {
  const std::uint64_t opened_in = opened_in_.load();
  return opened_in != 0 && opened_in != fork_generation() + 1;
}

std::shared_ptr<OpenSession> World::find() const noexcept {
  if (in_forked_child()) return nullptr;
  const std::lock_guard lock(mutex_);
  return open_;
}

std::shared_ptr<OpenSession> World::use() const {
  // Check this before taking the lock: in a forked child, a thread that does not exist may hold it forever.
  if (in_forked_child())
    throw StateError("this process was forked after MV_Init: it is not a rank and cannot use its tables");
  auto open = find();
  if (open == nullptr) throw StateError("there is no session; call MV_Init first");
  return open;
}

void World::init(int* argc, char** argv) {
  if (in_forked_child())
    throw StateError("this process was forked after MV_Init: it is not a rank and cannot become one");
  Arguments arguments;
  {
    const std::lock_guard lock(mutex_);
    if (open_ != nullptr || starting_) {
      throw StateError("the session is already open and continues unchanged; call MV_ShutDown before another MV_Init");
    }
    arguments = read_arguments(flags_, argc == nullptr || argv == nullptr ? 0 : *argc, argv);
    starting_ = true;
  }
  std::shared_ptr<OpenSession> open;
  try {
    open = std::make_shared<OpenSession>(arguments.flags, log_level_of(arguments.flags));
  } catch (...) {
    const std::lock_guard lock(mutex_);
    starting_ = false;
    throw;
  }
  {
    const std::lock_guard lock(mutex_);
    starting_ = false;
    open_ = open;
    current_ = arguments.flags;
    opened_in_.store(fork_generation() + 1);
  }
  if (argc != nullptr && argv != nullptr) {
    std::ranges::copy(arguments.taken, std::ranges::copy(arguments.left, argv).out);
    *argc = static_cast<int>(arguments.left.size());
  }
  if (!arguments.flags.ignored().empty()) {
    open->log->debug(fmt::format("flags without effect: {}", join(arguments.flags.ignored())));
  }
  if (!arguments.unknown.empty() && open->world.rank == 0) open->log->warn(unknown_flags_message(arguments.unknown));
}

void World::shut_down() {
  const auto open = use();
  const int code = pleiad_session_shutdown(open->session);
  // The pointer is not null and a forked child was refused above, so the session is over whatever the code is.
  {
    const std::lock_guard lock(mutex_);
    if (open_ == open) {
      open_.reset();
      opened_in_.store(0);
    }
  }
  check(code);
}

void World::set_flag(std::string_view name, std::string_view value) {
  if (in_forked_child()) throw StateError("this process was forked after MV_Init");
  const std::lock_guard lock(mutex_);
  if (!flags_.set(name, value)) throw InvalidArgument(unknown_name("flag", name, known_flags()));
  if (open_ == nullptr) return;
  (void)current_.set(name, value);
  if (belongs_to_session(name))
    open_->log->info(fmt::format("flag -{}={} takes effect at the next MV_Init", name, value));
}

MvTable* World::create(int dtype, bool matrix, std::int64_t rows, std::int64_t cols) {
  const auto open = use();
  std::string options;
  bool averaging = false;
  {
    const std::lock_guard lock(mutex_);
    options = current_.table_options(static_cast<DType>(dtype));
    averaging = current_.model_averaging();
  }
  if (open->world.servers == 0) {
    throw StateError(fmt::format("no rank is a server that could hold a table{}",
                                 averaging ? ": -ma=true starts none; remove the flag" : ""));
  }
  auto made = std::make_unique<MvTable>();
  made->dtype = dtype;
  made->matrix = matrix;
  made->cols = cols;
  check(matrix ? pleiad_matrix_create(open->session, rows, cols, dtype, options.c_str(), nullptr, &made->table)
               : pleiad_array_create(open->session, cols, dtype, options.c_str(), nullptr, &made->table));
  const std::unique_lock lock(tables_mutex_);
  tables_.insert(made.get());
  return made.release();
}

pleiad_table* World::create_key_value(int dtype) {
  const auto open = use();
  std::string options;
  {
    const std::lock_guard lock(mutex_);
    options = current_.table_options(DType::int32);  // tables of integers always sum
  }
  if (open->world.servers == 0)
    throw StateError(
        "no rank is a server that could hold a table; remove -ma=true, or give a rank the role of a server");
  pleiad_table* table = nullptr;
  check(pleiad_key_value_create(open->session, 1, dtype, options.c_str(), &table));
  return table;
}

void World::release(MvTable* table) noexcept {
  if (table == nullptr || in_forked_child()) return;
  const std::unique_lock lock(tables_mutex_);
  tables_.erase(table);
  pleiad_table_free(table->table);
  delete table;
}

const MvTable& World::table(const void* handle, bool matrix) const {
  if (in_forked_child())
    throw StateError("this process was forked after MV_Init: it is not a rank and cannot use its tables");
  if (handle == nullptr) throw InvalidArgument("the table is null");
  {
    const std::shared_lock lock(tables_mutex_);
    if (!tables_.contains(handle)) throw InvalidArgument(fmt::format("{} is not a table", handle));
  }
  const auto& found = *static_cast<const MvTable*>(handle);
  if (found.matrix != matrix)
    throw InvalidArgument(found.matrix ? "expected an array table; received a matrix table"
                                       : "expected a matrix table; received an array table");
  return found;
}

Ids::Ids(::multiverso::detail::Rows rows) : all(rows.all), data(nullptr), n(rows.n) {
  if (all) return;
  if (n < 0) throw InvalidArgument(fmt::format("expected 0 or more row ids; received {}", n));
  if (n > 0 && rows.ids == nullptr) throw InvalidArgument("the row ids are null");
  thread_local std::vector<std::int64_t> wide;
  wide.assign(rows.ids, rows.ids + n);
  data = wide.data();
}

void get(const MvTable& table, ::multiverso::detail::Rows rows, void* data, std::int64_t count) {
  const Ids ids(rows);
  check(ids.all ? pleiad_table_get(table.table, data, count, table.dtype)
                : pleiad_table_get_rows(table.table, ids.data, ids.n, data, count, table.dtype));
}

void add(const MvTable& table, ::multiverso::detail::Rows rows, const void* data, std::int64_t count,
         const pleiad_add_options* options) {
  const Ids ids(rows);
  check(ids.all ? pleiad_table_add(table.table, data, count, table.dtype, options)
                : pleiad_table_add_rows(table.table, ids.data, ids.n, data, count, table.dtype, options));
}

pleiad_pending* get_async(const MvTable& table, ::multiverso::detail::Rows rows, void* data, std::int64_t count) {
  const Ids ids(rows);
  pleiad_pending* pending = nullptr;
  check(ids.all ? pleiad_table_get_async(table.table, data, count, table.dtype, &pending)
                : pleiad_table_get_rows_async(table.table, ids.data, ids.n, data, count, table.dtype, &pending));
  return pending;
}

void add_async(const MvTable& table, ::multiverso::detail::Rows rows, const void* data, std::int64_t count,
               const pleiad_add_options* options, pleiad_pending** pending) {
  const Ids ids(rows);
  check(ids.all
            ? pleiad_table_add_async(table.table, data, count, table.dtype, options, pending)
            : pleiad_table_add_rows_async(table.table, ids.data, ids.n, data, count, table.dtype, options, pending));
}

int world_field(std::string_view where, int32_t pleiad_world::* field) {
  int number = -1;
  run(where, [&] { number = World::instance().use()->world.*field; });
  return number;
}

}  // namespace pleiad::mv

#include "pleiad/session.h"

#include <fmt/format.h>

#include "core/option_list.h"
#include "core/process.h"
#include "core/text.h"
#include "engine/inproc.h"
#include "engine/reduce.h"
#include "pleiad/error.h"
#include "session/core.h"

namespace pleiad {

namespace {

// The engine has no mean: it is computed as a sum and a factor.
Reduce engine_op(ReduceOp op) { return op == ReduceOp::mean ? Reduce::sum : static_cast<Reduce>(op); }

double factor_of(std::string_view where, ReduceOp op, DType dtype, int ranks) {
  if (op != ReduceOp::mean) return 1;
  if (is_integer(dtype)) {
    throw InvalidArgument(fmt::format("[{}] mean requires floating-point values; received {}", where, name_of(dtype)));
  }
  return 1.0 / ranks;
}

std::size_t bytes_of(ConstView view) { return static_cast<std::size_t>(view.count) * size_of(view.dtype); }

void check_blocks(std::string_view where, ConstView whole, ConstView block, int size) {
  if (whole.dtype != block.dtype || whole.count != block.count * size) {
    throw InvalidArgument(fmt::format("[{}] {} ranks with blocks of {} {} need {} in all; received {} {}", where, size,
                                      grouped(block.count), name_of(block.dtype), grouped(block.count * size),
                                      grouped(whole.count), name_of(whole.dtype)));
  }
}

// Counts and times one collective call.
class Timed {
 public:
  Timed(SessionCore& core, std::size_t bytes) : stats_(core.collectives), start_(now_ns()) {
    stats_.calls.fetch_add(1, std::memory_order_relaxed);
    stats_.bytes.fetch_add(bytes, std::memory_order_relaxed);
  }
  ~Timed() { stats_.ns.fetch_add(static_cast<std::uint64_t>(now_ns() - start_), std::memory_order_relaxed); }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  SessionCore::CollectiveCounts& stats_;
  std::int64_t start_;
};

}  // namespace

Session::Session(std::shared_ptr<SessionCore> core) : core_(std::move(core)) {}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

Session Session::start(SessionOptions options, std::function<bool()> interrupt) {
  return Session(SessionCore::start(std::move(options), std::move(interrupt)));
}

int Session::rank() const { return core_->engine().world().rank(); }
int Session::size() const { return core_->engine().world().size(); }
int Session::workers() const { return static_cast<int>(core_->context().roster.workers.size()); }
int Session::servers() const { return static_cast<int>(core_->context().roster.servers.size()); }
int Session::worker_id() const { return core_->context().roster.worker; }
int Session::server_id() const { return core_->context().roster.server; }

int Session::hosts() const { return core_->engine().world().hosts(); }
std::string Session::engine() const { return std::string(name_of(core_->engine().kind())); }
const SessionOptions& Session::options() const { return core_->engine().options(); }

int RankMap::worker_rank(int worker) const {
  const std::vector<int>& workers = core_->context().roster.workers;
  if (worker < 0 || worker >= static_cast<int>(workers.size()))
    throw InvalidArgument(fmt::format("[worker_rank] there are {} workers; received {}", workers.size(), worker));
  return workers[static_cast<std::size_t>(worker)];
}

int RankMap::server_rank(int server) const {
  const std::vector<int>& servers = core_->context().roster.servers;
  if (server < 0 || server >= static_cast<int>(servers.size()))
    throw InvalidArgument(fmt::format("[server_rank] there are {} servers; received {}", servers.size(), server));
  return servers[static_cast<std::size_t>(server)];
}

namespace {
const RankLocation& place_of(const World& world, std::string_view where, int rank) {
  if (!world.contains(rank)) {
    throw InvalidArgument(fmt::format("[{}] {} is not a rank; the world has {} ranks", where, rank, world.size()));
  }
  return world.location(rank);
}
}  // namespace

int RankMap::host_of(int rank) const { return place_of(core_->engine().world(), "host_of", rank).host; }
std::string RankMap::host_name(int rank) const { return place_of(core_->engine().world(), "host_name", rank).name; }
bool RankMap::alive(int rank) const {
  (void)place_of(core_->engine().world(), "alive", rank);
  return core_->engine().members().liveness(rank) != Liveness::dead;
}

ArrayTable Session::create_array(std::int64_t size, const TableOptions& options, ConstView initial) {
  return ArrayTable(core_->create({.matrix = false, .rows = 1, .cols = size, .options = options}, initial));
}

SparseTable Session::create_sparse(std::int64_t cols, const TableOptions& options) {
  return SparseTable(core_->create({.matrix = true, .rows = 0, .cols = cols, .options = options, .sparse = true}, {}));
}

KeyValueTable Session::create_key_value(std::int64_t width, const TableOptions& options) {
  return KeyValueTable(core_->create(
      {.matrix = true, .rows = 0, .cols = width, .options = options, .sparse = true, .key_value = true}, {}));
}

MatrixTable Session::create_matrix(std::int64_t rows, std::int64_t cols, const TableOptions& options,
                                   ConstView initial) {
  return MatrixTable(core_->create({.matrix = true, .rows = rows, .cols = cols, .options = options}, initial));
}

void Session::refuse_table(const std::string& why) { core_->refuse_table(why); }

void Session::barrier() {
  const Timed timed(*core_, 0);
  core_->barrier();
}

void Session::all_reduce(View data, ReduceOp op, std::uint32_t tag) {
  const Timed timed(*core_, bytes_of(data));
  const double factor = factor_of("all_reduce", op, data.dtype, size());
  core_->engine().collectives().all_reduce(data.dtype, data.data, static_cast<std::size_t>(data.count), engine_op(op),
                                           factor, tag);
}

void Session::broadcast(View data, int root) {
  const Timed timed(*core_, bytes_of(data));
  core_->engine().collectives().broadcast(data.data, bytes_of(data), root);
}

void Session::all_gather(ConstView in, View out) {
  check_blocks("all_gather", out, in, size());
  const Timed timed(*core_, bytes_of(out));
  core_->engine().collectives().all_gather(in.data, out.data, bytes_of(in));
}

void Session::reduce_scatter(ConstView in, View out, ReduceOp op) {
  check_blocks("reduce_scatter", in, out, size());
  const Timed timed(*core_, bytes_of(in));
  const double factor = factor_of("reduce_scatter", op, in.dtype, size());
  const auto count = static_cast<std::size_t>(out.count);
  core_->engine().collectives().reduce_scatter(in.dtype, in.data, out.data, count, engine_op(op));
  scale(out.dtype, out.data, factor, count);
}

void Session::send(int to, std::uint32_t tag, ConstView data) {
  core_->engine().mailbox().send(to, tag, data.data, bytes_of(data));
}
void Session::receive(int from, std::uint32_t tag, View data) {
  core_->engine().mailbox().receive(from, tag, data.data, bytes_of(data));
}

std::string Session::stats() const { return core_->stats(); }
CollectiveStats Session::collective_stats() const {
  const auto& s = core_->collectives;
  return {.calls = s.calls.load(), .bytes = s.bytes.load(), .seconds = static_cast<double>(s.ns.load()) * 1e-9};
}
std::string Session::report() const { return core_->engine().activity().report(); }
void Session::set_interrupt(std::function<bool()> interrupt) {
  core_->engine().waiter().set_interrupt(std::move(interrupt));
}
void Session::shutdown() { core_->shutdown(); }
std::string Session::give_up(const std::string& why) {
  Engine& engine = core_->engine();
  return engine.members().has_left() ? engine.order_failure().text() : engine.order_failure().record(why);
}

void run_cluster(int ranks, const std::function<void(Session&)>& body, SessionOptions options) {
  read_environment(options);
  check(options);
  std::unique_ptr<Hooks> hooks;
  if (!options.fault.empty()) hooks = std::make_unique<FaultHooks>(Fault::parse(options.fault), true);
  run_inproc(ranks, options, hooks.get(), [&](std::shared_ptr<InprocEngine> engine) {
    Session session(std::make_shared<SessionCore>(std::move(engine)));
    body(session);
  });
}

}  // namespace pleiad

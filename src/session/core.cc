#include "session/core.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "core/option_list.h"
#include "core/problem.h"
#include "core/text.h"
#include "engine/run_collectively.h"
#include "engine/start.h"
#include "pleiad/error.h"
#include "table/table_service.h"

namespace pleiad {

namespace {

/// Resolves a role such as "3+2": in a world of five ranks the first three are workers, the others servers. In a world
/// of another size, each rank is both.
std::string role_of(const std::string& wanted, int rank, int size) {
  int workers = 0, servers = 0, read = 0;
  if (std::sscanf(wanted.c_str(), "%6d+%6d%n", &workers, &servers, &read) != 2 ||
      static_cast<std::size_t>(read) != wanted.size() || workers < 1 || servers < 1) {
    return wanted;
  }
  if (workers + servers != size) return "both";
  return rank < workers ? "worker" : "server";
}

Roster exchange_roles(Engine& engine) {
  static const std::vector<std::string> kRoles = {"both", "worker", "server", "none"};
  // A role is exchanged before it is checked: all ranks must learn of a mistake, or they would wait for the rank that
  // made it.
  const auto found =
      std::ranges::find(kRoles, role_of(engine.options().role, engine.world().rank(), engine.world().size()));
  const std::int32_t mine = found == kRoles.end() ? -1 : static_cast<std::int32_t>(found - kRoles.begin());
  std::vector<std::int32_t> roles(static_cast<std::size_t>(engine.world().size()));
  engine.collectives().all_gather(&mine, roles.data(), sizeof mine);
  Roster roster;
  for (int r = 0; r < engine.world().size(); ++r) {
    const std::int32_t role = roles[static_cast<std::size_t>(r)];
    if (role < 0) {
      throw InvalidArgument(r == engine.world().rank() ? unknown_name("role", engine.options().role, kRoles)
                                                       : fmt::format("rank {} requested an unknown role", r));
    }
    const auto join = [&](std::vector<int>& ranks, int& own) {
      if (r == engine.world().rank()) own = static_cast<int>(ranks.size());
      ranks.push_back(r);
    };
    if (role == 0 || role == 1) join(roster.workers, roster.worker);
    if (role == 0 || role == 2) join(roster.servers, roster.server);
  }
  return roster;
}

// One rank's contribution to the creation of a table: the requested table, or the error in its arguments.
struct TableProposal {
  std::array<char, 640> description{};
  std::uint64_t description_hash = 0;  // a hash of the full description, which may not fit into `description`
  std::array<char, 512> problem{};
  ErrorKind kind = ErrorKind::invalid_argument;
  bool has_unused_tables = false;
};

}  // namespace

std::shared_ptr<SessionCore> SessionCore::start(SessionOptions options, std::function<bool()> interrupt) {
  read_environment(options);
  check(options);
  auto engine = start_engine(std::move(options), std::move(interrupt));
  if (engine->world().rank() == 0) {
    for (const std::string& problem : unknown_variables()) engine->log().warn(problem);
  }
  return std::make_shared<SessionCore>(std::move(engine));
}

SessionCore::SessionCore(std::shared_ptr<Engine> engine) : engine_(std::move(engine)) {
  context_ = std::make_shared<TableContext>(engine_, exchange_roles(*engine_));
  if (engine_->rpc() != nullptr) context_->service = std::make_unique<TableService>(*context_);
  const auto namer = [this](std::uint32_t id) { return table_name(id); };
  engine_->activity().set_table_namer(namer);
  context_->ledger.set_namer(namer);
  context_->failures.set_namer(namer);
  context_->forget = [this](std::uint32_t id) { forget(id); };
  if (engine_->options().signal_report && engine_->kind() != EngineKind::inproc) {
    signal_report_ = SignalReport::install(
        [this] { engine_->log().print(fmt::format("what the ranks are doing:\n{}", engine_->activity().report())); });
  }
  engine_->activity().record_threads();
}

SessionCore::~SessionCore() {
  if (!engine_->members().in_forked_child()) {
    try {
      context_->failures.raise_any();
    } catch (const Error& error) {
      engine_->log().error(fmt::format("the session ends without a shutdown, and {}", error.what()));
    }
  }
  // Pending operations use the tables, which are destroyed with this object. They may also hold locks, which the other
  // ranks take over from a dead rank. Stop them first.
  engine_->waiter().end_waits();
  context_->clocked.stop();
  context_->background.stop();
  if (!engine_->members().in_forked_child()) {
    context_->service.reset();
    engine_->members().abandon(Liveness::dead);
  }
  engine_->activity().set_table_namer({});
  context_->ledger.set_namer({});
  context_->failures.set_namer({});
  context_->forget = {};
}

std::string SessionCore::table_name(std::uint32_t id) const {
  const std::lock_guard lock(mutex_);
  return id < names_.size() ? names_[id] : fmt::format("table {}", id);
}

std::shared_ptr<Table> SessionCore::create(TableSpec spec, ConstView initial) {
  engine_->members().check_usable("create_table");
  const CallMark mark(engine_->activity(), Call::create_table);
  flush();
  std::uint32_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    id = static_cast<std::uint32_t>(names_.size());
    names_.push_back(spec.name(id));
  }
  TableProposal proposal;
  const auto put = [](auto& field, const std::string& text) {
    std::memcpy(field.data(), text.data(), std::min(text.size(), field.size() - 1));
  };
  proposal.has_unused_tables = has_unused_tables();
  const std::string description = spec.description(id);
  put(proposal.description, description);
  proposal.description_hash = std::hash<std::string>{}(description);
  try {
    if (!spec.mistake.empty()) throw InvalidArgument(spec.mistake);
    spec.check();
    if (context_->roster.servers.empty()) {
      throw InvalidArgument(
          "[create_table] no rank is a server that could hold a table; set the role of at least one rank to both or "
          "server");
    }
    if (spec.options.init_rank < 0 || spec.options.init_rank >= engine_->world().size()) {
      throw InvalidArgument(fmt::format("[create_table] init_rank {} is not a rank; the world has {} ranks",
                                        spec.options.init_rank, engine_->world().size()));
    }
    if (initial.count > 0 && (initial.dtype != spec.options.dtype || initial.count != spec.rows * spec.cols)) {
      throw InvalidArgument(fmt::format(
          "[create_table] table \"{}\" holds {} values of {}; the initial values are {} of {}", spec.name(id),
          grouped(spec.rows * spec.cols), name_of(spec.options.dtype), grouped(initial.count), name_of(initial.dtype)));
    }
  } catch (const Error& error) {
    put(proposal.problem, error.what());
    proposal.kind = error.kind();
  }
  try {
    std::vector<TableProposal> proposals(static_cast<std::size_t>(engine_->world().size()));
    engine_->collectives().all_gather(&proposal, proposals.data(), sizeof proposal);
    if (std::ranges::all_of(proposals, &TableProposal::has_unused_tables)) release_unused_tables();
    for (int r = 0; r < engine_->world().size(); ++r) {
      const TableProposal& theirs = proposals[static_cast<std::size_t>(r)];
      if (theirs.problem[0] != 0) {
        const std::string problem = r == engine_->world().rank()
                                        ? theirs.problem.data()
                                        : fmt::format("{}: {}", engine_->members().describe(r), theirs.problem.data());
        Problem{.kind = theirs.kind, .text = problem}.raise();
      }
    }
    for (int r = 1; r < engine_->world().size(); ++r) {
      if (proposals[static_cast<std::size_t>(r)].description_hash != proposals[0].description_hash) {
        throw OrderError(fmt::format("[create_table] the ranks create different tables as number {}: {} {}; {} {}", id,
                                     engine_->members().describe(0), proposals[0].description.data(),
                                     engine_->members().describe(r),
                                     proposals[static_cast<std::size_t>(r)].description.data()));
      }
    }
    auto table = std::make_shared<Table>(context_, id, std::move(spec), initial);
    const std::lock_guard lock(mutex_);
    tables_.push_back(table);
    return table;
  } catch (...) {
    // The error is the same on every rank, or no rank can complete the call. The id is therefore free again on every
    // rank.
    const std::lock_guard lock(mutex_);
    names_.pop_back();
    throw;
  }
}

void SessionCore::refuse_table(const std::string& why) {
  TableSpec spec;
  spec.mistake = why.empty() ? "[create_table] the arguments are invalid" : why;
  (void)create(std::move(spec), {});
  throw InternalError("a table with invalid arguments was created");
}

std::vector<std::shared_ptr<Table>> SessionCore::tables() const {
  const std::lock_guard lock(mutex_);
  return tables_;
}

void SessionCore::flush() {
  context_->clocked.drain();
  context_->background.drain();
}

void SessionCore::meet() {
  flush();
  try {
    if (context_->ledger.barrier(has_unused_tables())) release_unused_tables();
  } catch (const Error&) {
    context_->failures.raise_any();  // the earlier error is more informative
    throw;
  }
}

void SessionCore::barrier() {
  engine_->members().check_usable("barrier");
  meet();
  context_->failures.raise_any();
}

void SessionCore::barrier_for_all(std::string_view where) {
  engine_->members().check_usable(where);
  meet();
  run_collectively(*engine_, where, [&] { context_->failures.raise_any(); });
}

bool SessionCore::has_unused_tables() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(tables_, [](const auto& table) { return table.use_count() == 1; });
}

void SessionCore::release_unused_tables() {
  // Tables are created and released by all ranks together, so the list is the same on all ranks.
  std::vector<std::uint8_t> unused;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& table : tables_) unused.push_back(table.use_count() == 1 ? 1 : 0);
  }
  const std::size_t count = unused.size();
  std::vector<std::uint8_t> all(count * static_cast<std::size_t>(engine_->world().size()));
  engine_->collectives().all_gather(unused.data(), all.data(), count);
  std::vector<std::shared_ptr<Table>> gone;
  {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<Table>> left;
    for (std::size_t t = 0; t < count; ++t) {
      bool everywhere = true;
      for (std::size_t at = t; at < all.size(); at += count) everywhere = everywhere && all[at] != 0;
      (everywhere ? gone : left).push_back(std::move(tables_[t]));
    }
    tables_ = std::move(left);
  }
  for (const auto& table : gone) table->release();
}

void SessionCore::forget(std::uint32_t id) {
  const std::lock_guard lock(mutex_);
  std::erase_if(tables_, [&](const auto& table) { return table->id() == id; });
}

void SessionCore::shutdown() {
  engine_->members().check_usable("shutdown");
  std::optional<Problem> problem;
  try {
    flush();
    context_->failures.raise_any();
  } catch (const std::exception&) {
    problem = Problem::current();
  }
  if (engine_->options().stats) engine_->log().print(stats());
  signal_report_.reset();
  try {
    engine_->leave();
  } catch (const Error& error) {
    if (!problem) throw;
    Problem{.kind = error.kind(), .text = fmt::format("{}; before that, {}", error.what(), problem->text)}.raise();
  }
  // Operations that another thread has started in the meantime use the tables.
  engine_->waiter().end_waits();
  context_->clocked.stop();
  context_->background.stop();
  context_->service.reset();
  {
    const std::lock_guard lock(mutex_);
    tables_.clear();
  }
  if (problem) problem->raise();
}

std::string SessionCore::stats() const {
  std::string text = fmt::format("{:<24} {:>12} {:>10} {:>10} {:>12} {:>10} {:>10} {:>10}\n", "", "adds", "bytes",
                                 "us/add", "gets", "bytes", "us/get", "waited s");
  const auto each = [](double seconds, std::uint64_t calls) {
    return calls == 0 ? 0.0 : seconds * 1e6 / static_cast<double>(calls);
  };
  {
    const std::lock_guard lock(mutex_);
    for (const auto& table : tables_) {
      const TableStats s = table->stats();
      text +=
          fmt::format("{:<24} {:>12} {:>10} {:>10.2f} {:>12} {:>10} {:>10.2f} {:>10.3f}{}{}\n", table->name(),
                      grouped(static_cast<std::int64_t>(s.adds)), byte_size(s.bytes_added), each(s.add_seconds, s.adds),
                      grouped(static_cast<std::int64_t>(s.gets)), byte_size(s.bytes_got), each(s.get_seconds, s.gets),
                      s.wait_seconds, s.torn_stripes > 0 ? fmt::format("  torn stripes: {}", s.torn_stripes) : "",
                      s.dropped_adds > 0 ? fmt::format("  late adds dropped: {}", s.dropped_adds) : "");
    }
  }
  const std::uint64_t calls = collectives.calls.load();
  text += fmt::format("engine {}: {} collectives, {}, {:.2f} us each", name_of(engine_->kind()),
                      grouped(static_cast<std::int64_t>(calls)), byte_size(collectives.bytes.load()),
                      each(static_cast<double>(collectives.ns.load()) * 1e-9, calls));
  return text;
}

}  // namespace pleiad

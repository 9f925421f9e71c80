#include "engine/engine.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "core/problem.h"
#include "core/process.h"
#include "core/text.h"
#include "engine/rpc_transport.h"
#include "engine/unexpected_messages.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {

std::atomic<std::uint64_t> engines_made{0};

}  // namespace

Engine::Engine(SessionOptions options, int rank, std::vector<RankLocation> locations,
               std::shared_ptr<Segment> control_memory, Hooks* hooks)
    : options_(std::move(options)),
      rank_(rank),
      locations_(std::move(locations)),
      control_memory_(std::move(control_memory)),
      hooks_(hooks),
      made_in_generation_(fork_generation()),
      id_(engines_made.fetch_add(1) + 1) {
  for (int r = 0; r < size(); ++r) {
    if (location(r).host == location(rank_).host) neighbours_.push_back(r);
  }
  control_ = Control(control_memory_->data(), local_ranks());
  log_ = std::make_unique<Log>(options_.log_level, rank_, size(), location(rank_).name);
  unexpected_ = std::make_unique<UnexpectedMessages>(size());
  shares_cores_ = local_ranks() > usable_cores();
}

Engine::~Engine() = default;

int Engine::hosts() const {
  int hosts = 0;
  for (const RankLocation& location : locations_) hosts = std::max(hosts, location.host + 1);
  return hosts;
}

void Engine::announce_alive() {
  self().pid.store(static_cast<std::int32_t>(getpid()));
  self().liveness.store(Liveness::alive);
  control_.head().liveness.notify();
}

void Engine::mark_dead(int rank) {
  RankSlot& slot = control_.rank(location(rank).local);
  const Liveness liveness = slot.liveness.load();
  if (liveness == Liveness::dead || liveness == Liveness::left) return;
  slot.liveness.store(Liveness::dead);
  wake_all();
  notify_other_hosts();
}

void Engine::mark_process_ended(int rank) {
  control_.rank(location(rank).local).process_ended.store(1);
  mark_dead(rank);
}

bool Engine::has_ended(int rank) const {
  const RankSlot& slot = control_.rank(location(rank).local);
  return slot.process_ended.load() != 0 || slot.liveness.load() == Liveness::dead;
}

void Engine::wake_all() const {
  ControlHead& head = control_.head();
  for (Event* event : {&head.liveness, &head.collective, &head.mailbox, &head.calls}) event->notify();
}

Liveness Engine::liveness(int rank) const {
  if (location(rank).host != location(rank_).host) return rpc_ == nullptr ? Liveness::alive : rpc_->liveness(rank);
  return control_.rank(location(rank).local).liveness.load();
}

std::string Engine::describe(int rank) const {
  const RankLocation& where = location(rank);
  if (where.host != location(rank_).host) return fmt::format("rank {} (on {})", rank, where.name);
  return fmt::format("rank {} (pid {} on {})", rank, control_.rank(where.local).pid.load(), where.name);
}

bool Engine::in_forked_child() const { return made_in_generation_ != fork_generation(); }

void Engine::check_usable(std::string_view where) const {
  if (in_forked_child()) {
    throw StateError(fmt::format(
        "[{}] this process was forked from rank {}: it is not a rank and cannot use its tables", where, rank_));
  }
  if (left_.load(std::memory_order_relaxed)) {
    throw StateError(fmt::format("[{}] the session was shut down", where));
  }
}

std::string Engine::fail(const std::string& text, bool gave_up) {
  Failure& failure = control_.head().failure;
  std::uint32_t none = 0;
  if (failure.stage.compare_exchange_strong(none, 1)) {
    const std::size_t length = std::min(text.size(), sizeof failure.text - 1);
    std::memcpy(failure.text, text.data(), length);
    failure.text[length] = 0;
    failure.gave_up = gave_up ? 1 : 0;
    failure.stage.store(2);
    wake_all();
    notify_other_hosts();
  }
  for (int spins = 0; failure.stage.load() != 2 && spins < 1000; ++spins) relax(spins);
  return failure.stage.load() == 2 ? failure.text : text;
}

bool Engine::gave_up() const {
  const Failure& failure = control_.head().failure;
  return failure.stage.load(std::memory_order_acquire) == 2 && failure.gave_up != 0;
}

void Engine::check_failure() const {
  const Failure& failure = control_.head().failure;
  if (failure.stage.load(std::memory_order_acquire) == 2) throw OrderError(failure.text);
}

std::string Engine::failure() const {
  const Failure& failure = control_.head().failure;
  return failure.stage.load(std::memory_order_acquire) == 2 ? failure.text : "";
}

void Engine::notify_other_hosts() const {
  if (rpc_ != nullptr) rpc_->notify_change();
}

std::shared_ptr<Segment> Engine::share(std::size_t bytes, bool reserve_only) {
  const std::uint64_t id = ++segments_;
  std::shared_ptr<Segment> segment;
  struct Outcome {
    ErrorKind kind = ErrorKind::memory;
    std::array<char, 508> text{};
  } mine;
  const auto attempt = [&](auto&& make) {
    try {
      segment = make();
    } catch (const std::exception& error) {
      if (const auto* known = dynamic_cast<const Error*>(&error)) mine.kind = known->kind();
      fmt::format_to_n(mine.text.begin(), mine.text.size() - 1, "{}: {}", describe(rank_), error.what());
    }
  };
  const auto agree = [&] {
    std::vector<Outcome> all(static_cast<std::size_t>(size()));
    all_gather(&mine, all.data(), sizeof mine);
    for (const Outcome& theirs : all) {
      if (theirs.text[0] != 0) Problem{.kind = theirs.kind, .text = theirs.text.data()}.raise();
    }
  };
  const bool maker = location(rank_).local == 0;
  if (maker) attempt([&] { return make_segment(id, bytes, reserve_only); });
  agree();
  if (!maker) attempt([&] { return fetch_segment(id, bytes); });
  agree();
  return segment;
}

void Engine::abandon(Liveness liveness) {
  if (in_forked_child() || left_.exchange(true)) return;
  self().liveness.store(liveness);
  wake_all();
  notify_other_hosts();
}

void Engine::leave() {
  check_usable("shutdown");
  const CallMark mark(*this, Call::shutdown);
  self().liveness.store(Liveness::left);
  wake_all();
  notify_other_hosts();
  const auto missing = [&] {
    std::vector<int> ranks;
    for (const int r : neighbours_) {
      if (liveness(r) == Liveness::alive) ranks.push_back(r);
    }
    return ranks;
  };
  // An order failure must not prevent the shutdown, so the wait is not ordered.
  try {
    wait(control_.head().liveness,
         {.call = Call::shutdown, .ready = [&] { return missing().empty(); }, .missing = missing, .ordered = false});
    left_.store(true);
    for (int r = 0; r < size(); ++r) {
      if (liveness(r) == Liveness::dead) {
        throw TransportError(
            fmt::format("[rank {}] shutdown: the session ended without {}, which died", rank_, describe(r)));
      }
    }
    if (!one_host()) leave_hosts();
  } catch (...) {
    left_.store(true);
    after_leave(false);
    throw;
  }
  after_leave(true);
}

// Defaults for engines that do not span hosts.
namespace {
[[noreturn]] void no_remote(std::string_view kind) {
  throw InternalError(fmt::format("the {} engine cannot reach other hosts", kind));
}
}  // namespace
void Engine::remote_broadcast(void*, std::size_t, int) { no_remote(kind()); }
void Engine::remote_all_reduce(DType, void*, std::size_t, Reduce) { no_remote(kind()); }
void Engine::remote_all_gather(const void*, void*, std::size_t) { no_remote(kind()); }
void Engine::remote_reduce_scatter(DType, const void*, void*, std::size_t, Reduce) { no_remote(kind()); }
void Engine::remote_send(int, std::uint32_t, const void*, std::size_t) { no_remote(kind()); }
void Engine::remote_receive(int, std::uint32_t, void*, std::size_t) { no_remote(kind()); }

std::string Engine::report(const std::function<std::string(std::uint32_t)>& table_name) const {
  std::string text;
  for (const int r : neighbours_) {
    const RankSlot& slot = control_.rank(location(r).local);
    const Call call = slot.call.load();
    const std::uint32_t table = slot.table.load();
    std::string doing(name_of(call));
    if (table != kNoTable) doing += fmt::format("(\"{}\")", table_name ? table_name(table) : std::to_string(table));
    const Liveness liveness = slot.liveness.load();
    if (liveness == Liveness::dead) {
      doing = fmt::format("dead, was in {}", doing);
    } else if (liveness == Liveness::left) {
      doing = "has shut down";
    } else if (slot.waiting.load() != 0) {
      doing += fmt::format(", waiting for {:.1f} s", static_cast<double>(now_ns() - slot.since.load()) * 1e-9);
    }
    text += fmt::format("{}{}: {}; {} adds, {} gets, {} collectives", text.empty() ? "" : "\n", describe(r), doing,
                        grouped(static_cast<std::int64_t>(slot.adds.load())),
                        grouped(static_cast<std::int64_t>(slot.gets.load())),
                        grouped(static_cast<std::int64_t>(slot.collectives.load())));
  }
  return text;
}

CallMark::CallMark(const Engine& engine, Call call, std::uint32_t table)
    : slot_(engine.self()),
      before_(slot_.call.load(std::memory_order_relaxed)),
      table_before_(slot_.table.load(std::memory_order_relaxed)) {
  slot_.table.store(table, std::memory_order_relaxed);
  slot_.call.store(call, std::memory_order_relaxed);
}

CallMark::~CallMark() {
  slot_.call.store(before_, std::memory_order_relaxed);
  slot_.table.store(table_before_, std::memory_order_relaxed);
}

}  // namespace pleiad

#include "table/home_clock.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "core/process.h"
#include "pleiad/error.h"

namespace pleiad {

HomeClock::HomeClock(TableContext& context)
    : context_(context), engine_(*context.engine), calls_(context.roster.workers.size()) {}

void HomeClock::add_table(std::uint32_t table, const ClockRule& rule) {
  TableClock& clock = clocks_[table];
  clock.rule = rule;
  clock.workers = std::vector<ClockSlot>(context_.roster.workers.size());
  if (rule.kind != ClockKind::backup) return;
  clock.turns.resize(clock.workers.size());
  clock.rounds = {
      .workers = static_cast<int>(clock.workers.size()),
      .spare = rule.spare,
      .slot = [&clock](int worker) -> ClockSlot& { return clock.workers[static_cast<std::size_t>(worker)]; },
      .finished = [this](int worker) { return engine_.members().liveness(rank_of(worker)) == Liveness::left; },
      .closed_rounds = &clock.closed};
}

HomeClock::TableClock& HomeClock::clock(std::uint32_t table, int worker) {
  const auto found = clocks_.find(table);
  if (found == clocks_.end() || worker < 0 || static_cast<std::size_t>(worker) >= calls_.size()) {
    throw InvalidArgument(
        fmt::format("rank {} has no clock of table {} for worker {}", engine_.world().rank(), table, worker));
  }
  return found->second;
}

bool HomeClock::begin(const TableHead& head, const IncomingRequest& request,
                      FunctionRef<std::span<char>(std::size_t)> answer) {
  if (head.call != Call::add && head.call != Call::get) throw InvalidArgument("expected an add or a get");
  const TableClock& table = clock(head.table, head.worker);
  const auto say_turn = [&] {
    if (table.rule.kind != ClockKind::backup) return true;
    const BackupTurn& turn = table.turns[static_cast<std::size_t>(head.worker)];
    std::memcpy(answer(sizeof turn).data(), &turn, sizeof turn);
    return true;
  };
  if (request.repeated) {
    const auto same = [&](const Wait& wait) {
      return wait.back.head.connection == request.back.head.connection &&
             wait.back.head.sequence == request.back.head.sequence;
    };
    const auto found = std::ranges::find_if(waiting_, same);
    if (found == waiting_.end()) return say_turn();  // the call was already started; only the reply was lost
    found->back = request.back;
    return false;
  }
  Wait wait{.back = request.back, .worker = head.worker, .call = head.call, .table = head.table};
  wait.noted = now_ns();
  wait.recorded = table.rule.kind != ClockKind::sync;  // without sync, workers need not make the same calls
  if (advance(wait)) return say_turn();
  waiting_.push_back(std::move(wait));
  return false;
}

void HomeClock::end(const TableHead& head, const IncomingRequest& request) {
  TableClock& table = clock(head.table, head.worker);
  if (request.repeated) return;
  if (table.rule.kind == ClockKind::backup) {
    table.rounds.end(head.worker, head.call);
  } else {
    count(table.workers[static_cast<std::size_t>(head.worker)], head.call);
  }
  look();
}

std::uint64_t HomeClock::settle(const TableHead& head) {
  TableClock& table = clock(head.table, head.worker);
  if (table.rule.kind != ClockKind::backup) return 0;
  bool moved = false;
  (void)table.rounds.close(table.closed.load() + 1, moved);
  return table.closed.load();
}

// Returns false if the worker is so far ahead that its call cannot be recorded yet.
bool HomeClock::record(Wait& wait) {
  const std::uint64_t k = calls_[static_cast<std::size_t>(wait.worker)];
  for (std::size_t v = 0; v < calls_.size(); ++v) {
    if (calls_[v] + kLedgerEntries <= k && engine_.members().liveness(rank_of(static_cast<int>(v))) != Liveness::left)
      return false;
  }
  LedgerEntry& entry = entries_[k % kLedgerEntries];
  if (entries_made_ == k) {
    entry = {.call = wait.call, .table = wait.table, .rank = rank_of(wait.worker)};
    ++entries_made_;
  } else if (entry.call != wait.call || entry.table != wait.table) {
    throw OrderError(engine_.order_failure().record(
        context_.ledger.difference(k, rank_of(wait.worker), wait.call, wait.table, entry)));
  }
  ++calls_[static_cast<std::size_t>(wait.worker)];
  wait.recorded = true;
  return true;
}

std::vector<std::int32_t> HomeClock::behind(const Wait& wait) const {
  std::vector<std::int32_t> ranks;
  const TableClock& table = clocks_.at(wait.table);
  if (table.rule.kind == ClockKind::backup) {
    const std::uint64_t round = table.rounds.needed(wait.worker, wait.call);
    bool moved = false;
    if (table.rounds.close(round, moved)) return ranks;
    for (int v = 0; v < table.rounds.workers; ++v) {
      if (table.rounds.lacks(round, v)) ranks.push_back(rank_of(v));
    }
    return ranks;
  }
  const std::uint64_t k = calls_[static_cast<std::size_t>(wait.worker)];
  const ClockSlot& mine = table.workers[static_cast<std::size_t>(wait.worker)];
  for (std::size_t v = 0; v < calls_.size(); ++v) {
    const bool late =
        wait.recorded ? must_wait(wait.call, table.rule, mine, table.workers[v]) : calls_[v] + kLedgerEntries <= k;
    const bool finished = engine_.members().liveness(rank_of(static_cast<int>(v))) == Liveness::left &&
                          !has_unfinished_add(table.workers[v]);
    if (late && !finished) {
      ranks.push_back(rank_of(static_cast<int>(v)));
    }
  }
  return ranks;
}

bool HomeClock::advance(Wait& wait) {
  engine_.order_failure().check();
  if (wait.recorded || record(wait)) {
    const auto late = behind(wait);
    if (late.empty()) {
      TableClock& table = clocks_.at(wait.table);
      ClockSlot& mine = table.workers[static_cast<std::size_t>(wait.worker)];
      if (table.rule.kind == ClockKind::backup) {
        const bool dropped = table.rounds.start(wait.worker, wait.call);
        table.turns[static_cast<std::size_t>(wait.worker)] = {
            .round = mine.adds_issued.load(), .closed = table.closed.load(), .dropped = dropped ? 1U : 0U};
      } else if (wait.call == Call::add) {
        mine.adds_issued.fetch_add(1);
      }
      return true;
    }
  }
  const std::vector<std::int32_t> late = behind(wait);
  const auto first = [&](const auto& ranks, Liveness life) {
    const auto found = std::ranges::find_if(ranks, [&](int rank) { return engine_.members().liveness(rank) == life; });
    return found == ranks.end() ? -1 : static_cast<int>(*found);
  };
  int dead = first(late, Liveness::dead);
  const int finished = first(late, Liveness::left);
  if (dead < 0 && finished < 0) return false;
  // A worker that failed in an add and shut down may have done so because another one died.
  if (dead < 0) dead = first(context_.roster.workers, Liveness::dead);
  if (dead >= 0) {
    throw TransportError(fmt::format("[rank {}] {}: {} died", rank_of(wait.worker), name_of(wait.call),
                                     engine_.members().describe(dead)));
  }
  // The death may become known here a moment after the shutdown that it caused.
  constexpr std::int64_t kGrace = 2'000'000'000;
  if (wait.shut_down_seen == 0) wait.shut_down_seen = now_ns();
  if (now_ns() - wait.shut_down_seen < kGrace) return false;
  throw OrderError(fmt::format("[rank {}] {} waits for {}, which has shut down after an add that failed",
                               rank_of(wait.worker), name_of(wait.call), engine_.members().describe(finished)));
}

void HomeClock::look() {
  constexpr std::int64_t kNote = 500'000'000;
  RpcTransport& rpc = *engine_.rpc();
  const std::int64_t now = now_ns();
  std::erase_if(waiting_, [&](Wait& wait) {
    try {
      if (advance(wait)) {
        const TableClock& table = clocks_.at(wait.table);
        std::span<const BackupTurn> turn;
        if (table.rule.kind == ClockKind::backup) turn = {&table.turns[static_cast<std::size_t>(wait.worker)], 1};
        rpc.answer(wait.back, nullptr, {reinterpret_cast<const char*>(turn.data()), turn.size_bytes()});
        return true;
      }
    } catch (const Error&) {
      const Problem problem = Problem::current();
      rpc.answer(wait.back, &problem);
      return true;
    }
    if (now - wait.noted >= kNote) {
      wait.noted = now;
      rpc.report_waiting(wait.back, behind(wait));
    }
    return false;
  });
}

namespace {

void ask_home(TableContext& context, TableOperation operation, const TableHead& head,
              FunctionRef<void(std::size_t, std::span<const char>)> take) {
  // Send to the home itself, never to another rank of its host: only the home has the clocks.
  const OutgoingRequest part{.to = context.engine->world().clock_home(),
                             .operation = static_cast<std::uint32_t>(operation),
                             .idempotent = false,
                             .bytes = sizeof head};
  context.engine->rpc()->exchange(
      {.call = head.call,
       .count = 1,
       .request = [&](std::size_t) { return part; },
       .fill = [&](std::size_t, std::span<char> to) { std::memcpy(to.data(), &head, sizeof head); },
       .take = take,
       .meanwhile = [] {},
       .in_step = true,
       .fixed_rank = true});
}

}  // namespace

LedgerEntry home_entry(TableContext& context, std::uint64_t k) {
  TableHead head;
  head.call = Call::barrier;
  head.first = static_cast<std::int64_t>(k);
  LedgerEntry entry;
  ask_home(context, TableOperation::entry, head, [&](std::size_t, std::span<const char> body) {
    if (body.size() == sizeof entry) std::memcpy(&entry, body.data(), sizeof entry);
  });
  return entry;
}

void RemoteClock::ask(TableOperation operation, Call call) {
  TableHead head;
  head.table = table_;
  head.worker = context_.roster.worker;
  head.call = call;
  ask_home(context_, operation, head, [&](std::size_t, std::span<const char> body) {
    if (backup_ && body.size() == sizeof turn_) std::memcpy(&turn_, body.data(), sizeof turn_);
  });
}

std::uint64_t RemoteClock::settle() const {
  if (!backup_ || context_.roster.worker < 0) return 0;  // only a worker has a clock at the home
  TableHead head;
  head.table = table_;
  head.worker = context_.roster.worker;
  head.call = Call::barrier;
  std::uint64_t closed = 0;
  ask_home(context_, TableOperation::settle, head, [&](std::size_t, std::span<const char> body) {
    if (body.size() == sizeof closed) std::memcpy(&closed, body.data(), sizeof closed);
  });
  return closed;
}

Turn RemoteClock::begin(Call call) {
  Engine& engine = *context_.engine;
  engine.order_failure().check();
  if (ssp_ && call != Call::get) return {};
  const std::int64_t start = now_ns();
  ask(TableOperation::begin, call);
  if (!ssp_ && !backup_) engine.activity().self().clocked.fetch_add(1);
  engine.hooks().at(Point::clock);
  return {.waited = now_ns() - start, .dropped = backup_ && call == Call::add && turn_.dropped != 0};
}

void RemoteClock::end(Call call) {
  if ((ssp_ && call != Call::tick) || (backup_ && call != Call::add)) return;
  ask(TableOperation::end, call);
  if (call == Call::add) ++adds_done_;
}

}  // namespace pleiad

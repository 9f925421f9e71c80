#include "table/ledger.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "engine/lock.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {

// The value that a rank passes to a barrier: its number of calls, with a flag in the top bit.
constexpr std::uint64_t kFlag = std::uint64_t{1} << 63U;
constexpr std::uint64_t kNotCompared = kFlag - 1;

}  // namespace

CallLedger::CallLedger(Engine& engine, std::vector<int> worker_ranks)
    : engine_(engine), worker_ranks_(std::move(worker_ranks)) {}

std::string CallLedger::describe_call(Call call, std::uint32_t table) const {
  return fmt::format("{}(\"{}\")", name_of(call), namer_ ? namer_(table) : std::to_string(table));
}

std::string CallLedger::difference(std::uint64_t k, int rank, Call call, std::uint32_t table,
                                   const LedgerEntry& other) const {
  return fmt::format(
      "workers call synchronous tables differently: call {} of {} is {}, of {} it was {}; every worker must make the "
      "same calls in the same order:\n{}",
      k + 1, engine_.members().describe(rank), describe_call(call, table), engine_.members().describe(other.rank),
      describe_call(other.call, other.table), engine_.activity().report());
}

LedgerEntry CallLedger::entry(std::uint64_t k) const {
  if (source_) return source_(k);
  Ledger& ledger = engine_.control().head().ledger;
  const SharedLock lock(engine_, ledger.lock);
  return ledger.entries[k % kLedgerEntries];
}

void CallLedger::record(Call call, std::uint32_t table) {
  engine_.order_failure().check();
  engine_.hooks().at(Point::clock);
  const Control& control = engine_.control();
  const std::uint64_t k = engine_.activity().self().clocked.load(std::memory_order_relaxed);
  const auto too_far_behind = [&](int rank) {
    return engine_.members().liveness(rank) != Liveness::left &&
           control.rank(engine_.world().location(rank).local).clocked.load() + kLedgerEntries <= k;
  };
  engine_.waiter().wait(control.head().calls,
                        {.call = call,
                         .ready = [&] { return std::ranges::none_of(worker_ranks_, too_far_behind); },
                         .missing =
                             [&] {
                               std::vector<int> ranks;
                               std::ranges::copy_if(worker_ranks_, std::back_inserter(ranks), too_far_behind);
                               return ranks;
                             }});
  std::optional<LedgerEntry> other;
  {
    Ledger& ledger = control.head().ledger;
    const SharedLock lock(engine_, ledger.lock);
    LedgerEntry& entry = ledger.entries[k % kLedgerEntries];
    if (ledger.entries_made == k) {
      entry = {.call = call, .table = table, .rank = engine_.world().rank()};
      ledger.entries_made = k + 1;
    } else if (entry.call != call || entry.table != table) {
      other = entry;
    }
  }
  if (other) {
    throw OrderError(engine_.order_failure().record(difference(k, engine_.world().rank(), call, table, *other)));
  }
  engine_.activity().self().clocked.store(k + 1);
  control.head().calls.notify();
}

void CallLedger::note_caller() {
  const std::thread::id me = std::this_thread::get_id();
  std::thread::id first = caller_.load(std::memory_order_relaxed);
  if (first == me || (first == std::thread::id() && caller_.compare_exchange_strong(first, me))) return;
  several_callers_.store(true);
}

std::uint64_t CallLedger::calls_so_far() const {
  const bool only_this_thread = caller_.load() == std::this_thread::get_id() && !several_callers_.load();
  return only_this_thread ? engine_.activity().self().clocked.load() : kNotCompared;
}

bool CallLedger::barrier(bool flag) {
  struct Count {
    int rank;
    std::uint64_t calls;
  };
  std::optional<Count> fewest, most;
  bool all_flags = flag;
  engine_.collectives().barrier(calls_so_far() | (flag ? kFlag : 0), [&](int rank, std::uint64_t said) {
    all_flags = all_flags && (said & kFlag) != 0;
    const std::uint64_t calls = said & ~kFlag;
    if (calls == kNotCompared) return;
    if (!fewest || calls < fewest->calls) fewest = {rank, calls};
    if (!most || calls > most->calls) most = {rank, calls};
  });
  if (!fewest || fewest->calls == most->calls) return all_flags;
  const LedgerEntry missing = entry(fewest->calls);
  throw OrderError(engine_.order_failure().record(
      fmt::format("workers reached a barrier after different numbers of calls to synchronous tables: {} has made {}, "
                  "{} {}; call {}, {}, is the first that {} has not made; every worker must make the same calls in the "
                  "same order:\n{}",
                  engine_.members().describe(most->rank), most->calls, engine_.members().describe(fewest->rank),
                  fewest->calls, fewest->calls + 1, describe_call(missing.call, missing.table),
                  engine_.members().describe(fewest->rank), engine_.activity().report())));
}

}  // namespace pleiad

// The clocks and the ledger of a session with workers on several hosts. They are in one process, their home, where only
// its service thread accesses them.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "engine/rpc_transport.h"
#include "table/backup_rounds.h"
#include "table/clock.h"
#include "table/request.h"

namespace pleiad {

class HomeClock {
 public:
  explicit HomeClock(TableContext& context);

  void add_table(std::uint32_t table, const ClockRule& rule);
  void remove_table(std::uint32_t table) { clocks_.erase(table); }
  /// Handles a worker's request to start a call. Returns true if it may start now; otherwise the reply is sent later.
  /// Throws an OrderError if another worker made a different call.
  [[nodiscard]] bool begin(const TableHead& head, const IncomingRequest& request,
                           FunctionRef<std::span<char>(std::size_t)> answer);
  void end(const TableHead& head, const IncomingRequest& request);
  /// See Clock::settle.
  [[nodiscard]] std::uint64_t settle(const TableHead& head);
  [[nodiscard]] LedgerEntry entry(std::uint64_t k) const { return entries_[k % kLedgerEntries]; }

  /// Replies to the requests that may start now, or never will.
  void look();
  [[nodiscard]] bool somebody_waits() const { return !waiting_.empty(); }

 private:
  struct TableClock {
    ClockRule rule;
    std::vector<ClockSlot> workers;
    // For backup workers:
    BackupRounds rounds;
    std::atomic<std::uint64_t> closed{0};
    std::vector<BackupTurn> turns;  ///< the last reply to each worker
  };
  struct Wait {
    ReturnAddress back;
    int worker = 0;
    Call call = Call::idle;
    std::uint32_t table = 0;
    bool recorded = false;
    std::int64_t noted = 0;
    std::int64_t shut_down_seen = 0;  ///< when this wait first saw that an awaited rank has shut down
  };

  [[nodiscard]] bool advance(Wait& wait);
  [[nodiscard]] bool record(Wait& wait);
  [[nodiscard]] std::vector<std::int32_t> behind(const Wait& wait) const;
  [[nodiscard]] TableClock& clock(std::uint32_t table, int worker);
  [[nodiscard]] int rank_of(int worker) const { return context_.roster.workers[static_cast<std::size_t>(worker)]; }

  TableContext& context_;
  Engine& engine_;
  std::map<std::uint32_t, TableClock> clocks_;
  std::vector<LedgerEntry> entries_{kLedgerEntries};
  std::uint64_t entries_made_ = 0;
  std::vector<std::uint64_t> calls_;  // number of calls of each worker
  std::vector<Wait> waiting_;
};

/// Reads an entry of the ledger at the home.
[[nodiscard]] LedgerEntry home_entry(TableContext& context, std::uint64_t k);

/// A worker's side of a clock at the home.
class RemoteClock final : public Clock {
 public:
  RemoteClock(TableContext& context, std::uint32_t table, ClockKind kind)
      : context_(context), table_(table), ssp_(kind == ClockKind::ssp), backup_(kind == ClockKind::backup) {}

  Turn begin(Call call) override;
  void end(Call call) override;
  [[nodiscard]] bool ready(Call) const override { return false; }
  [[nodiscard]] std::uint64_t round() const override { return backup_ ? turn_.round : adds_done_ + 1; }
  [[nodiscard]] std::uint64_t complete_rounds() const override { return backup_ ? turn_.closed : adds_done_; }
  [[nodiscard]] std::uint64_t closed() const override { return turn_.closed; }
  [[nodiscard]] std::uint64_t settle() const override;

 private:
  void ask(TableOperation operation, Call call);

  TableContext& context_;
  std::uint32_t table_;
  bool ssp_;
  bool backup_;
  std::uint64_t adds_done_ = 0;  // only one thread at a time makes clocked calls
  BackupTurn turn_;
};

}  // namespace pleiad

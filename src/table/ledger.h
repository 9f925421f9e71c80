// Compares the workers' calls to synchronous tables: the k-th call must be the same everywhere, and at a barrier all
// workers must have made as many.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"

namespace pleiad {

class CallLedger {
 public:
  CallLedger(Engine& engine, std::vector<int> worker_ranks);
  /// Names tables in messages.
  void set_namer(std::function<std::string(std::uint32_t)> namer) { namer_ = std::move(namer); }
  /// Writes down this worker's next call. A call that differs from another worker's is an OrderError, here and in every
  /// rank that waits for an ordered call. A worker far ahead of the slowest waits.
  void record(Call call, std::uint32_t table);
  /// What to say where the k-th call (from 0) of two ranks differs.
  [[nodiscard]] std::string difference(std::uint64_t k, int rank, Call call, std::uint32_t table,
                                       const LedgerEntry& other) const;
  /// Where the calls are written down on another host: how to read the k-th.
  void set_source(std::function<LedgerEntry(std::uint64_t)> source) { source_ = std::move(source); }
  /// Remembers that the calling thread calls synchronous tables.
  void note_caller();
  /// Waits for all ranks. Workers that have made different numbers of calls by then all get an OrderError, which names
  /// the first call that is missing. Compared are the ranks whose calls all come from the thread that is at the
  /// barrier: what another one has under way counts or not by chance.
  /// Returns true where every rank passed `flag`.
  bool barrier(bool flag);

 private:
  [[nodiscard]] std::uint64_t calls_so_far() const;
  [[nodiscard]] LedgerEntry entry(std::uint64_t k) const;
  [[nodiscard]] std::string words(Call call, std::uint32_t table) const;

  Engine& engine_;
  std::vector<int> worker_ranks_;
  std::function<std::string(std::uint32_t)> namer_;
  std::function<LedgerEntry(std::uint64_t)> source_;
  std::atomic<std::thread::id> caller_;
  std::atomic<bool> several_callers_{false};
};

}  // namespace pleiad

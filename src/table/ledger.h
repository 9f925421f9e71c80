// Compares the workers' calls to synchronous tables: the k-th call must be the same on all workers, and at a barrier
// all workers must have made the same number of calls.
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
  /// Sets the function that names tables in messages.
  void set_namer(std::function<std::string(std::uint32_t)> namer) { namer_ = std::move(namer); }
  /// Records this worker's next call. A call that differs from another worker's is an OrderError, here and in every
  /// rank that waits for an ordered call. A worker that is far ahead of the slowest one waits.
  void record(Call call, std::uint32_t table);
  /// Returns the error message for two ranks whose k-th calls (starting at 0) differ.
  [[nodiscard]] std::string difference(std::uint64_t k, int rank, Call call, std::uint32_t table,
                                       const LedgerEntry& other) const;
  /// Sets the function that reads the k-th entry, if another host keeps the ledger.
  void set_source(std::function<LedgerEntry(std::uint64_t)> source) { source_ = std::move(source); }
  /// Records that the calling thread calls synchronous tables.
  void note_caller();
  /// Waits for all ranks. If workers have made different numbers of calls, all get an OrderError that names the first
  /// missing call. The comparison covers only ranks whose calls all come from the thread that is at the barrier,
  /// because it is a matter of chance whether another thread's call counts yet. Returns true if every rank passed
  /// `flag`.
  bool barrier(bool flag);

 private:
  [[nodiscard]] std::uint64_t calls_so_far() const;
  [[nodiscard]] LedgerEntry entry(std::uint64_t k) const;
  [[nodiscard]] std::string describe_call(Call call, std::uint32_t table) const;

  Engine& engine_;
  std::vector<int> worker_ranks_;
  std::function<std::string(std::uint32_t)> namer_;
  std::function<LedgerEntry(std::uint64_t)> source_;
  std::atomic<std::thread::id> caller_;
  std::atomic<bool> several_callers_{false};
};

}  // namespace pleiad

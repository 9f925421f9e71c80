// The record of what a rank is doing, for reports and for the detection of deadlocks.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "engine/membership.h"
#include "engine/rank_context.h"

namespace pleiad {

/// The other ranks of the host see what this rank records here. Thread-safe, except for set_table_namer.
class Activity {
 public:
  Activity(const RankContext& context, const Membership& members);

  /// This rank's entry in the control segment.
  [[nodiscard]] RankSlot& self() const { return context_.self(); }

  /// Registers the calling thread with deadlock detection: other ranks may wait for calls of this thread. From then on
  /// the rank counts as stuck only while this thread waits too.
  void register_thread();
  /// Records the threads that exist now. Deadlock detection treats threads that appear later as unknown until they call
  /// register_thread().
  void record_threads();
  /// Records that Pleiad has started an internal thread in this process.
  void internal_thread_started() { self().known_threads.fetch_add(1); }
  /// Mark the beginning and the end of background work that callers may wait for, such as writing a file. The rank does
  /// not count as stuck in between, even if the disk is slow.
  void background_work_started() { self().background.fetch_add(1); }
  void background_work_ended() { self().background.fetch_sub(1); }

  /// Sets a function that maps a table's number to its name, for reports.
  void set_table_namer(std::function<std::string(std::uint32_t)> namer) { table_namer_ = std::move(namer); }
  /// Describes what every rank of this host is doing, one line per rank.
  [[nodiscard]] std::string report() const;

 private:
  const RankContext& context_;
  const Membership& members_;
  const std::uint64_t id_;
  std::function<std::string(std::uint32_t)> table_namer_;
};

/// Shows in reports what the calling thread is doing, for the lifetime of the object.
class CallMark {
 public:
  CallMark(const Activity& activity, Call call, std::uint32_t table = kNoTable);
  ~CallMark();
  CallMark(const CallMark&) = delete;
  CallMark& operator=(const CallMark&) = delete;

 private:
  RankSlot& slot_;
  Call before_;
  std::uint32_t table_before_;
};

/// Counts work that another thread does for this rank as one more thread of the rank, from the moment of delegation. A
/// rank whose caller waits for that thread is stuck only if that thread is stuck too.
class DelegatedWork {
 public:
  explicit DelegatedWork(const Activity& activity);
  ~DelegatedWork();
  DelegatedWork(DelegatedWork&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)) {}
  DelegatedWork& operator=(DelegatedWork&&) = delete;
  /// Called by the thread that does the work, so that it is not counted twice.
  static void set_thread_delegated(bool delegated_thread);

 private:
  RankSlot* slot_;
};

}  // namespace pleiad

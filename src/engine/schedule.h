// Explores interleavings of an inproc world. The ranks run one at a time, and at every hook point a seeded choice
// selects the rank that runs next. The same seed gives the same run.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <random>
#include <vector>

#include "engine/hooks.h"

namespace pleiad {

class Schedule final : public Hooks {
 public:
  /// `switch_chance` is the probability that another rank runs next at a point. `fault` may kill one of the ranks.
  Schedule(int ranks, std::uint64_t seed, double switch_chance = 0.5, std::optional<Fault> fault = {});

  void enter(int rank) override;
  void leave(int rank) override;
  void at(int rank, Point point) override;
  [[nodiscard]] bool scheduled() const override { return true; }
  std::int64_t pass(int rank) override;

  [[nodiscard]] std::uint64_t points() const { return points_; }

 private:
  void switch_rank(std::unique_lock<std::mutex>& lock, int rank, bool may_stay);

  std::mutex mutex_;
  std::vector<std::condition_variable> turns_;  // one per rank, so that a switch wakes one thread
  std::vector<bool> active_;                    // guarded by mutex_, as all members below
  int entered_ = 0;
  int running_ = -1;
  std::mt19937_64 random_;
  double switch_chance_;
  std::optional<Fault> fault_;
  std::uint64_t fault_seen_ = 0;
  std::uint64_t points_ = 0;
};

}  // namespace pleiad

#include "engine/schedule.h"

namespace pleiad {

Schedule::Schedule(int ranks, std::uint64_t seed, double switch_chance, std::optional<Fault> fault)
    : turns_(static_cast<std::size_t>(ranks)),
      active_(static_cast<std::size_t>(ranks), false),
      random_(seed),
      switch_chance_(switch_chance),
      fault_(fault) {}

void Schedule::enter(int rank) {
  std::unique_lock lock(mutex_);
  active_[static_cast<std::size_t>(rank)] = true;
  // No rank runs before all have entered; otherwise the start order of the threads would select the first one.
  if (++entered_ == static_cast<int>(active_.size())) {
    running_ = static_cast<int>(random_() % active_.size());
    turns_[static_cast<std::size_t>(running_)].notify_one();
  }
  turns_[static_cast<std::size_t>(rank)].wait(lock, [&] { return running_ == rank; });
}

void Schedule::leave(int rank) {
  std::unique_lock lock(mutex_);
  active_[static_cast<std::size_t>(rank)] = false;
  switch_rank(lock, rank, false);
}

void Schedule::at(int rank, Point point) {
  std::unique_lock lock(mutex_);
  ++points_;
  if (fault_ && rank == fault_->rank && point == fault_->point && ++fault_seen_ == fault_->count) throw RankKilled{};
  if (std::uniform_real_distribution<>()(random_) < switch_chance_) switch_rank(lock, rank, true);
}

std::int64_t Schedule::pass(int rank) {
  std::unique_lock lock(mutex_);
  switch_rank(lock, rank, false);
  return 10'000'000;
}

// Selects the next rank and waits until this rank is selected again. If may_stay is false, selects another rank if
// there is one.
void Schedule::switch_rank(std::unique_lock<std::mutex>& lock, int rank, bool may_stay) {
  std::vector<int> others;
  for (int r = 0; r < static_cast<int>(active_.size()); ++r) {
    if (active_[static_cast<std::size_t>(r)] && (may_stay || r != rank)) others.push_back(r);
  }
  if (others.empty()) {
    running_ = active_[static_cast<std::size_t>(rank)] ? rank : -1;
    return;
  }
  running_ = others[random_() % others.size()];
  if (running_ == rank) return;
  turns_[static_cast<std::size_t>(running_)].notify_one();
  if (active_[static_cast<std::size_t>(rank)]) {
    turns_[static_cast<std::size_t>(rank)].wait(lock, [&] { return running_ == rank; });
  }
}

}  // namespace pleiad

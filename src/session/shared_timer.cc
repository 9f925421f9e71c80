#include "session/shared_timer.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "core/process.h"

namespace pleiad {

// Shared memory through which the ranks of a host coordinate. A rank first stores its call number and then reads
// `meeting`. The leader first stores a proposed meeting and then reads the call numbers. So a rank that has passed the
// proposed call is either seen by the leader, which moves the meeting on, or has itself seen the proposal and waits
// until it is confirmed, which takes only a few instructions.
struct SharedTimer::Board {
  struct alignas(64) Calls {
    std::atomic<std::int64_t> made{0};
  };

  alignas(64) std::atomic<std::int64_t> meeting{0};  ///< twice the call number, plus one while it is only a proposal
  Event changed;

  [[nodiscard]] Calls& of(int rank) { return reinterpret_cast<Calls*>(this + 1)[rank]; }
  static std::size_t bytes(int ranks) { return sizeof(Board) + static_cast<std::size_t>(ranks) * sizeof(Calls); }
};

SharedTimer::SharedTimer(Engine& engine, double every_seconds)
    : engine_(engine),
      every_seconds_(every_seconds),
      started_ns_(now_ns()),
      mark_ns_(started_ns_),
      looked_ns_(started_ns_) {
  if (!engine_.world().one_host()) return;
  memory_ = engine_.segments().share(Board::bytes(engine_.world().size()), false);  // a board starts as zeros
  board_ = static_cast<Board*>(memory_->data());
}

SharedTimer::~SharedTimer() = default;

bool SharedTimer::poll() {
  ++calls_;
  return board_ != nullptr ? poll_on_board() : poll_between_hosts();
}

void SharedTimer::restart() {
  started_ns_ = now_ns();
  if (board_ == nullptr || !engine_.world().commits_snapshots()) return;
  // No rank has reached a later call: all ranks meet after this one. At this call, other ranks may not have read
  // `meeting` yet.
  if (arranged_ > calls_) board_->meeting.store(0);
  arranged_ = 0;
}

bool SharedTimer::poll_on_board() {
  check_alive();
  board_->of(engine_.world().rank()).made.store(calls_);
  if (engine_.world().commits_snapshots()) {
    board_->changed.notify();
    if (arranged_ == 0 && static_cast<double>(now_ns() - started_ns_) * 1e-9 >= every_seconds_) schedule_meeting();
  } else {
    limit_lead();
  }
  const auto leader = [&] { return std::vector{engine_.world().snapshot_committer()}; };
  const auto said = [&] {
    const std::int64_t meeting = board_->meeting.load();
    return meeting % 2 == 0 || meeting / 2 > calls_;
  };
  engine_.waiter().wait(board_->changed, {.call = Call::wait, .ready = said, .missing = leader});
  return board_->meeting.load() == 2 * calls_;
}

// Called by the leader: makes all ranks meet at the first call that no rank has reached.
void SharedTimer::schedule_meeting() {
  const auto furthest = [&] {
    std::int64_t most = 0;
    for (int r = 0; r < engine_.world().size(); ++r) most = std::max(most, board_->of(r).made.load());
    return most;
  };
  arranged_ = furthest() + 1;
  for (;;) {
    board_->meeting.store(2 * arranged_ + 1);
    const std::int64_t most = furthest();
    if (most < arranged_) break;
    arranged_ = most + 1;
  }
  board_->meeting.store(2 * arranged_);
  board_->changed.notify();
}

// Called by the other ranks. A rank that runs ahead delays the meeting, because the leader has to reach the same call.
void SharedTimer::limit_lead() {
  std::atomic<std::int64_t>& leader_made = board_->of(engine_.world().snapshot_committer()).made;
  const std::int64_t now = now_ns();
  if (leader_made.load() >= mark_) {
    mark_ = calls_;
    mark_ns_ = now;
    return;
  }
  if (static_cast<double>(now - mark_ns_) * 1e-9 < every_seconds_) return;
  engine_.waiter().wait(board_->changed,
                        {.call = Call::wait,
                         .ready = [&] { return leader_made.load() >= mark_; },
                         .missing = [&] { return std::vector{engine_.world().snapshot_committer()}; }});
}

// Asynchronous workers make no other calls that would report the death of a rank.
void SharedTimer::check_alive() {
  const auto dead = [&] {
    std::vector<int> ranks;
    for (int r = 0; r < engine_.world().size(); ++r) {
      if (engine_.members().liveness(r) == Liveness::dead) ranks.push_back(r);
    }
    return ranks;
  };
  engine_.waiter().wait(board_->changed,
                        {.call = Call::wait, .ready = [&] { return dead().empty(); }, .missing = dead});
}

// Every synchronisation makes the ranks wait for the leader, so the next one is half as many calls ahead as the pace
// predicts for the remaining time. Since the pace may change, it is at most twice as many calls ahead as have passed
// since the last one, and at most a second ahead.
bool SharedTimer::poll_between_hosts() {
  if (calls_ < next_look_) return false;
  const std::int64_t now = now_ns();
  const double left = every_seconds_ - static_cast<double>(now - started_ns_) * 1e-9;
  const auto behind = static_cast<double>(calls_ - looked_);
  const double pace = behind / std::max(static_cast<double>(now - looked_ns_) * 1e-9, 1e-9);
  looked_ = calls_;
  looked_ns_ = now;
  next_look_ = calls_;
  if (left > 0) {
    next_look_ +=
        std::max<std::int64_t>(1, static_cast<std::int64_t>(std::min(2 * behind, pace * std::min(left / 2, 1.0))));
  }
  engine_.collectives().broadcast(&next_look_, sizeof next_look_, engine_.world().snapshot_committer());
  return next_look_ == calls_;
}

}  // namespace pleiad

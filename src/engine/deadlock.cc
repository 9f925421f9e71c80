#include "engine/deadlock.h"

#include <algorithm>

#include "core/process.h"

namespace pleiad {

namespace {

// A process is idle if it uses less than this share of a core over this time, not counting the checks of its waiting
// threads.
constexpr double kIdleSeconds = 0.5;
constexpr double kIdleShare = 0.02;

}  // namespace

bool DeadlockDetector::deadlocked(double seconds) {
  std::vector<RankSample> now;
  bool someone_lives = false;
  bool messages = false;
  int last_pid = 0;
  std::int64_t cpu = 0;
  std::int64_t polls_cpu = 0;
  for (const int rank : context_.world.neighbours()) {
    const RankSlot& slot = context_.slot(rank);
    const Liveness liveness = slot.liveness.load();
    someone_lives |= liveness == Liveness::alive;
    messages |= liveness == Liveness::alive && slot.waiting_for_messages.load() > 0;
    const bool stuck = slot.background.load() == 0 && slot.waiting.load() >= std::max(1U, slot.threads.load());
    if (liveness == Liveness::absent || (liveness == Liveness::alive && !stuck)) {
      previous_.clear();
      return false;
    }
    const int pid = slot.pid.load();
    if (pid != last_pid) cpu = cpu_ns(pid);
    last_pid = pid;
    polls_cpu += slot.polls_cpu.load();
    now.push_back({slot.changes.load(), slot.polls.load(), cpu - slot.polls_cpu.load()});
  }
  if (context_.kind == EngineKind::inproc) {  // all ranks belong to one process
    for (RankSample& sample : now) sample.cpu = cpu - polls_cpu;
  }
  bool same = previous_.size() == now.size();
  bool looked = seconds - previous_seconds_ >= kIdleSeconds;
  for (std::size_t i = 0; same && i < now.size(); ++i) {
    const RankSlot& slot = context_.control.rank(static_cast<int>(i));
    if (slot.liveness.load() != Liveness::alive) continue;
    const double used = static_cast<double>(now[i].cpu - previous_[i].cpu) * 1e-9;
    same = previous_[i].changes == now[i].changes &&
           (context_.hooks.scheduled() || used <= kIdleShare * std::max(seconds - previous_seconds_, kIdleSeconds));
    looked &= now[i].polls >= previous_[i].polls + 2 * slot.waiting.load();
  }
  if (!same) {
    previous_ = now;
    previous_seconds_ = seconds;
  }
  if (!same || !looked || !someone_lives) return false;
  return seconds - previous_seconds_ >= context_.options.warn_after || !(messages || has_unknown_threads());
}

// Returns true if a process of this host has threads that have never called Pleiad and are not internal ones.
bool DeadlockDetector::has_unknown_threads() const {
  if (context_.kind == EngineKind::inproc) return false;  // all threads of the process belong to the world
  return std::ranges::any_of(context_.world.neighbours(), [&](int rank) {
    const RankSlot& slot = context_.slot(rank);
    // The thread that started the session is one of those counted at the start.
    const std::uint32_t later = std::max(slot.callers.load(), 1U) - 1;
    return slot.liveness.load() == Liveness::alive &&
           thread_count(slot.pid.load()) > static_cast<int>(slot.known_threads.load() + later);
  });
}

}  // namespace pleiad

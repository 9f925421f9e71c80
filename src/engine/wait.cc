// How a rank waits: it spins briefly, then sleeps in slices. After each slice it checks for reasons why the wait could
// never end.
#include <sched.h>
#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "core/process.h"
#include "engine/engine.h"
#include "engine/rpc_transport.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {

constexpr std::int64_t kSlice = 50'000'000;
constexpr std::int64_t kSpin = 200'000;
constexpr int kPauses = 128;
// A process is idle if it uses less than this share of a core over this time, not counting the checks of its waiting
// threads.
constexpr double kIdleSeconds = 0.5;
constexpr double kIdleShare = 0.02;

thread_local bool delegated_thread = false;

// The worlds with which this thread is registered. The thread unregisters when it ends.
struct ThreadRegistrations {
  struct Entry {
    std::uint64_t engine;
    std::uint64_t generation;
    std::weak_ptr<Segment> memory;
    RankSlot* slot;
  };
  std::vector<Entry> entries;

  ThreadRegistrations() = default;
  ~ThreadRegistrations() {
    for (const Entry& entry : entries) {
      const auto memory = entry.memory.lock();
      if (memory == nullptr || entry.generation != fork_generation()) continue;
      entry.slot->callers.fetch_sub(1);
      entry.slot->threads.fetch_sub(1);
      entry.slot->changes.fetch_add(1);
    }
  }
  ThreadRegistrations(const ThreadRegistrations&) = delete;
  ThreadRegistrations& operator=(const ThreadRegistrations&) = delete;
};
thread_local ThreadRegistrations thread_registrations;

// Marks that one thread of this rank waits.
class WaitMark {
 public:
  WaitMark(RankSlot& slot, Call call) : slot_(slot), messages_(call == Call::send || call == Call::receive ? 1 : 0) {
    slot_.waiting_for_messages.fetch_add(messages_);
    slot_.waiting.fetch_add(1);
    slot_.changes.fetch_add(1);
  }
  ~WaitMark() {
    slot_.waiting.fetch_sub(1);
    slot_.waiting_for_messages.fetch_sub(messages_);
    slot_.changes.fetch_add(1);
  }
  WaitMark(const WaitMark&) = delete;
  WaitMark& operator=(const WaitMark&) = delete;

 private:
  RankSlot& slot_;
  std::uint32_t messages_;
};

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

// The state of one wait from slice to slice.
class Engine::WaitMonitor {
 public:
  WaitMonitor(Engine& engine, const Waiting& waiting)
      : engine_(engine), waiting_(waiting), next_warning_(engine.options_.warn_after) {}

  void check(double seconds) {
    const bool messages = waiting_.call == Call::send || waiting_.call == Call::receive;
    // Between hosts every rank enters a collective even after it has heard of a failure, so that no rank is left inside
    // MPI. The exception is a rank that gave up.
    if (waiting_.ordered || (waiting_.in_step && !messages && engine_.gave_up())) engine_.check_failure();
    check_awaited_ranks();
    engine_.check_interrupt(name_of(waiting_.call), [&] { return whom(); });
    if (waiting_.ordered && engine_.one_host() && deadlocked(seconds)) {
      throw OrderError(engine_.fail(fmt::format(
          "deadlock: every rank waits for another one; all ranks must make the same calls in the same order:\n{}",
          engine_.report(engine_.table_namer_))));
    }
    if (seconds >= engine_.options_.timeout) {
      throw TimeoutError(fmt::format("[rank {}] {} waited {:.1f} s for {}; what the ranks are doing:\n{}",
                                     engine_.rank_, name_of(waiting_.call), seconds, whom(),
                                     engine_.report(engine_.table_namer_)));
    }
    if (seconds >= next_warning_) {
      engine_.log_->warn(fmt::format("{} has waited {:.0f} s for {}; what the ranks are doing:\n{}",
                                     name_of(waiting_.call), seconds, whom(), engine_.report(engine_.table_namer_)));
      next_warning_ += std::max(engine_.options_.warn_after, 1.0);
    }
  }

 private:
  std::string whom() const {
    std::string text;
    for (const int rank : waiting_.missing()) text += (text.empty() ? "" : ", ") + engine_.describe(rank);
    return text.empty() ? "its turn" : text;
  }

  void check_awaited_ranks() const {
    const auto first = [&](const std::vector<int>& ranks, Liveness liveness) {
      const auto found = std::ranges::find_if(ranks, [&](int rank) { return engine_.liveness(rank) == liveness; });
      return found == ranks.end() ? -1 : *found;
    };
    const std::vector<int> missing = waiting_.missing();
    check_silent_hosts(missing);
    int dead = first(missing, Liveness::dead);
    const int finished = waiting_.ordered ? first(missing, Liveness::left) : -1;
    if (dead < 0 && finished < 0) return;
    // The rank may have done its part and left since `missing` was computed.
    if (waiting_.ready()) return;
    // A rank that shut down early may have done so because another one died. In that case the caller gets the death.
    if (dead < 0) dead = first(engine_.neighbours_, Liveness::dead);
    if (dead >= 0) {
      throw TransportError(
          fmt::format("[rank {}] {}: {} died", engine_.rank_, name_of(waiting_.call), engine_.describe(dead)));
    }
    throw OrderError(fmt::format("[rank {}] {} waits for {}, which has shut down", engine_.rank_,
                                 name_of(waiting_.call), engine_.describe(finished)));
  }

  void check_silent_hosts(const std::vector<int>& missing) const {
    if (engine_.rpc_ == nullptr) return;
    for (const int rank : missing) {
      const int host = engine_.location(rank).host;
      if (host == engine_.location(engine_.rank_).host || engine_.liveness(rank) != Liveness::alive) continue;
      const double silent = engine_.rpc_->silence(host);
      if (silent < engine_.options_.host_timeout || waiting_.ready()) continue;
      throw SilenceError(
          fmt::format("[rank {}] {}: no message from {} for {:.1f} s; check that the host and the network are up",
                      engine_.rank_, name_of(waiting_.call), engine_.describe(rank), silent));
    }
  }

  // The observed state of a rank at one moment.
  struct RankSample {
    std::uint64_t changes;
    std::uint64_t polls;
    std::int64_t cpu;  ///< of its process, without the checks of this rank
  };

  // Returns true if no rank can make progress: every live rank was stuck at one moment and has since checked twice in
  // vain, while the processes were idle. A thread that Pleiad does not know may still make a call. So if there are such
  // threads, or if a rank waits for a message, which any thread may send, the state must last until the first warning.
  bool deadlocked(double seconds) {
    std::vector<RankSample> now;
    bool someone_lives = false;
    bool messages = false;
    int last_pid = 0;
    std::int64_t cpu = 0;
    std::int64_t polls_cpu = 0;
    for (const int rank : engine_.neighbours_) {
      const RankSlot& slot = engine_.control_.rank(engine_.location(rank).local);
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
    if (engine_.kind() == "inproc") {  // all ranks belong to one process
      for (RankSample& sample : now) sample.cpu = cpu - polls_cpu;
    }
    bool same = previous_.size() == now.size();
    bool looked = seconds - previous_seconds_ >= kIdleSeconds;
    for (std::size_t i = 0; same && i < now.size(); ++i) {
      const RankSlot& slot = engine_.control_.rank(static_cast<int>(i));
      if (slot.liveness.load() != Liveness::alive) continue;
      const double used = static_cast<double>(now[i].cpu - previous_[i].cpu) * 1e-9;
      same = previous_[i].changes == now[i].changes &&
             (engine_.scheduled() || used <= kIdleShare * std::max(seconds - previous_seconds_, kIdleSeconds));
      looked &= now[i].polls >= previous_[i].polls + 2 * slot.waiting.load();
    }
    if (!same) {
      previous_ = now;
      previous_seconds_ = seconds;
    }
    if (!same || !looked || !someone_lives) return false;
    return seconds - previous_seconds_ >= engine_.options_.warn_after || !(messages || has_unknown_threads());
  }

  // Returns true if a process of this host has threads that have never called Pleiad and are not internal ones.
  bool has_unknown_threads() const {
    if (engine_.kind() == "inproc") return false;  // all threads of the process belong to the world
    return std::ranges::any_of(engine_.neighbours_, [&](int rank) {
      const RankSlot& slot = engine_.control_.rank(engine_.location(rank).local);
      // The thread that started the session is one of those counted at the start.
      const std::uint32_t later = std::max(slot.callers.load(), 1U) - 1;
      return slot.liveness.load() == Liveness::alive &&
             thread_count(slot.pid.load()) > static_cast<int>(slot.known_threads.load() + later);
    });
  }

  Engine& engine_;
  const Waiting& waiting_;
  double next_warning_;
  std::vector<RankSample> previous_;
  double previous_seconds_ = 0;
};

void Engine::check_interrupt(std::string_view where, FunctionRef<std::string()> whom) const {
  if (ending_.load())
    throw StateError(fmt::format("[rank {}] {}: the session was shut down during the call", rank_, where));
  if (interrupt_ && interrupt_()) {
    throw Interrupted(fmt::format("[rank {}] {} was interrupted while it waited for {}", rank_, where, whom()));
  }
}

void Engine::relax(int spins) const {
  // A yield is cheap if no other thread wants the core, and otherwise lets the awaited rank run.
  if (shares_cores_ || spins >= kPauses) {
    sched_yield();
  } else {
    pause();
  }
}

void Engine::register_thread() {
  if (delegated_thread) return;
  auto& entries = thread_registrations.entries;
  if (std::ranges::find(entries, id_, &ThreadRegistrations::Entry::engine) != entries.end()) return;
  std::erase_if(entries, [](const auto& entry) { return entry.memory.expired(); });
  entries.push_back({.engine = id_, .generation = fork_generation(), .memory = control_memory_, .slot = &self()});
  self().callers.fetch_add(1);
  self().threads.fetch_add(1);
  self().changes.fetch_add(1);
}

void Engine::record_threads() { self().known_threads.store(static_cast<std::uint32_t>(thread_count(getpid()))); }

void Engine::wait(Event& event, const Waiting& waiting) {
  if (waiting.ready()) return;
  if (!scheduled()) {
    const std::int64_t limit = now_ns() + kSpin;
    for (int spins = 1; spins % 32 != 0 || now_ns() < limit; ++spins) {
      relax(spins);
      if (waiting.ready()) return;
    }
  }
  wait_by(
      [&](std::int64_t ns) {
        event.sleepers.fetch_add(1);
        const std::uint32_t generation = event.generation.load();
        if (!waiting.ready()) futex_wait(event.generation, generation, ns);
        event.sleepers.fetch_sub(1);
      },
      waiting);
}

void Engine::wait_by(FunctionRef<void(std::int64_t)> sleep, const Waiting& waiting) {
  if (waiting.ready()) return;
  register_thread();
  try {
    sleep_until_ready(sleep, waiting);
  } catch (const Error& error) {
    // The others wait for this rank's step and must learn why it does not come.
    const bool gave_up = error.kind() == ErrorKind::timeout || error.kind() == ErrorKind::interrupted ||
                         dynamic_cast<const SilenceError*>(&error) != nullptr;
    if (gave_up && waiting.in_step) (void)fail(error.what(), true);
    throw;
  }
}

void Engine::sleep_until_ready(FunctionRef<void(std::int64_t)> sleep, const Waiting& waiting) {
  RankSlot& slot = self();
  const WaitMark mark(slot, waiting.call);
  const std::int64_t start = now_ns();
  slot.since.store(start, std::memory_order_relaxed);
  std::int64_t virtual_time = 0;
  WaitMonitor monitor(*this, waiting);
  std::int64_t cpu = thread_cpu_ns();
  while (!waiting.ready()) {
    monitor.check(static_cast<double>(scheduled() ? virtual_time : now_ns() - start) * 1e-9);
    if (scheduled()) {
      virtual_time += hooks_->pass(rank_);
    } else {
      sleep(kSlice);
    }
    if (waiting.ready()) return;
    slot.polls.fetch_add(1);
    const std::int64_t so_far = thread_cpu_ns();
    slot.polls_cpu.fetch_add(so_far - cpu);
    cpu = so_far;
  }
}

DelegatedWork::DelegatedWork(const Engine& engine) : slot_(&engine.self()) {
  slot_->threads.fetch_add(1);
  slot_->changes.fetch_add(1);
}

DelegatedWork::~DelegatedWork() {
  if (slot_ == nullptr) return;
  slot_->threads.fetch_sub(1);
  slot_->changes.fetch_add(1);
}

void DelegatedWork::set_thread_delegated(bool is_engaged) { delegated_thread = is_engaged; }

}  // namespace pleiad

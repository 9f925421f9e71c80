// How a rank waits: it spins briefly, then sleeps in slices. After each slice it checks for reasons why the wait could
// never end.
#include "engine/waiter.h"

#include <sched.h>

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "core/process.h"
#include "engine/deadlock.h"

namespace pleiad {

namespace {

constexpr std::int64_t kSlice = 50'000'000;
constexpr std::int64_t kSpin = 200'000;
constexpr int kPauses = 128;

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
class Waiter::Monitor {
 public:
  Monitor(const Waiter& waiter, const Waiting& waiting)
      : context_(waiter.context_),
        members_(waiter.members_),
        failure_(waiter.failure_),
        activity_(waiter.activity_),
        waiter_(waiter),
        waiting_(waiting),
        deadlock_(context_),
        next_warning_(context_.options.warn_after) {}

  void check(double seconds) {
    const bool messages = waiting_.call == Call::send || waiting_.call == Call::receive;
    // Between hosts every rank enters a collective even after it has heard of a failure, so that no rank is left inside
    // MPI. The exception is a rank that gave up.
    if (waiting_.ordered || (waiting_.in_step && !messages && failure_.gave_up())) failure_.check();
    check_awaited_ranks();
    waiter_.check_interrupt(name_of(waiting_.call), [&] { return whom(); });
    if (waiting_.ordered && context_.world.one_host() && deadlock_.deadlocked(seconds)) {
      throw OrderError(failure_.record(fmt::format(
          "deadlock: every rank waits for another one; all ranks must make the same calls in the same order:\n{}",
          activity_.report())));
    }
    if (seconds >= context_.options.timeout) {
      throw TimeoutError(fmt::format("[rank {}] {} waited {:.1f} s for {}; what the ranks are doing:\n{}",
                                     context_.world.rank(), name_of(waiting_.call), seconds, whom(),
                                     activity_.report()));
    }
    if (seconds >= next_warning_) {
      context_.log.warn(fmt::format("{} has waited {:.0f} s for {}; what the ranks are doing:\n{}",
                                    name_of(waiting_.call), seconds, whom(), activity_.report()));
      next_warning_ += std::max(context_.options.warn_after, 1.0);
    }
  }

 private:
  std::string whom() const {
    std::string text;
    for (const int rank : waiting_.missing()) text += (text.empty() ? "" : ", ") + members_.describe(rank);
    return text.empty() ? "its turn" : text;
  }

  void check_awaited_ranks() const {
    const auto first = [&](std::span<const int> ranks, Liveness liveness) {
      const auto found = std::ranges::find_if(ranks, [&](int rank) { return members_.liveness(rank) == liveness; });
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
    if (dead < 0) dead = first(context_.world.neighbours(), Liveness::dead);
    if (dead >= 0) {
      throw TransportError(
          fmt::format("[rank {}] {}: {} died", context_.world.rank(), name_of(waiting_.call), members_.describe(dead)));
    }
    throw OrderError(fmt::format("[rank {}] {} waits for {}, which has shut down", context_.world.rank(),
                                 name_of(waiting_.call), members_.describe(finished)));
  }

  void check_silent_hosts(const std::vector<int>& missing) const {
    for (const int rank : missing) {
      if (context_.world.on_this_host(rank) || members_.liveness(rank) != Liveness::alive) continue;
      const double silent = members_.silence(rank);
      if (silent < context_.options.host_timeout || waiting_.ready()) continue;
      throw SilenceError(
          fmt::format("[rank {}] {}: no message from {} for {:.1f} s; check that the host and the network are up",
                      context_.world.rank(), name_of(waiting_.call), members_.describe(rank), silent));
    }
  }

  RankContext& context_;
  const Membership& members_;
  OrderFailure& failure_;
  const Activity& activity_;
  const Waiter& waiter_;
  const Waiting& waiting_;
  DeadlockDetector deadlock_;
  double next_warning_;
};

Waiter::Waiter(RankContext& context, const Membership& members, OrderFailure& failure, Activity& activity)
    : context_(context),
      members_(members),
      failure_(failure),
      activity_(activity),
      shares_cores_(context.world.local_ranks() > usable_cores()) {}

void Waiter::check_interrupt(std::string_view where, FunctionRef<std::string()> whom) const {
  if (ending_.load())
    throw StateError(
        fmt::format("[rank {}] {}: the session was shut down during the call", context_.world.rank(), where));
  if (interrupt_ && interrupt_()) {
    throw Interrupted(
        fmt::format("[rank {}] {} was interrupted while it waited for {}", context_.world.rank(), where, whom()));
  }
}

void Waiter::relax(int spins) const {
  // A yield is cheap if no other thread wants the core, and otherwise lets the awaited rank run.
  if (shares_cores_ || spins >= kPauses) {
    sched_yield();
  } else {
    pause();
  }
}

void Waiter::wait(Event& event, const Waiting& waiting) {
  if (waiting.ready()) return;
  if (!context_.hooks.scheduled()) {
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

void Waiter::wait_by(FunctionRef<void(std::int64_t)> sleep, const Waiting& waiting) {
  if (waiting.ready()) return;
  activity_.register_thread();
  try {
    sleep_until_ready(sleep, waiting);
  } catch (const Error& error) {
    // The others wait for this rank's step and must learn why it does not come.
    const bool gave_up = error.kind() == ErrorKind::timeout || error.kind() == ErrorKind::interrupted ||
                         dynamic_cast<const SilenceError*>(&error) != nullptr;
    if (gave_up && waiting.in_step) (void)failure_.record(error.what(), true);
    throw;
  }
}

void Waiter::sleep_until_ready(FunctionRef<void(std::int64_t)> sleep, const Waiting& waiting) {
  RankSlot& slot = context_.self();
  const WaitMark mark(slot, waiting.call);
  const std::int64_t start = now_ns();
  slot.since.store(start, std::memory_order_relaxed);
  std::int64_t virtual_time = 0;
  Monitor monitor(*this, waiting);
  std::int64_t cpu = thread_cpu_ns();
  while (!waiting.ready()) {
    monitor.check(static_cast<double>(context_.hooks.scheduled() ? virtual_time : now_ns() - start) * 1e-9);
    if (context_.hooks.scheduled()) {
      virtual_time += context_.hooks.pass();
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

}  // namespace pleiad

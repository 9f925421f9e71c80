#include "engine/lock.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/process.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {
thread_local const FunctionRef<void(int)>* on_long_wait = nullptr;
}  // namespace

LongLockWait::LongLockWait(const FunctionRef<void(int)>& call) { on_long_wait = &call; }
LongLockWait::~LongLockWait() { on_long_wait = nullptr; }

void SharedLock::lock_slowly() {
  constexpr double kMoment = 0.05;
  constexpr std::int64_t kSlice = 20'000'000;
  constexpr int kSpins = 400;
  static constexpr const char* kInPart = ". The call may have taken effect in part";
  std::uint32_t want = mine();
  const SessionOptions& options = engine_.options();
  const std::int64_t start = now_ns();
  double next_warning = options.warn_after;
  for (int spins = 0;; ++spins) {
    std::uint32_t holder = word_.load(std::memory_order_relaxed);
    if (holder == 0) {
      if (word_.compare_exchange_weak(holder, want, std::memory_order_acquire)) return;
      continue;
    }
    const int rank = static_cast<int>(holder & ~kSleepers) - 1;
    if (engine_.members().has_ended(rank)) {
      // Others may sleep behind the dead holder, so the flag stays set.
      if (word_.compare_exchange_strong(holder, mine() | kSleepers, std::memory_order_acquire)) {
        taken_over_ = true;
        dead_ = rank;
        return;
      }
      continue;
    }
    if (engine_.hooks().scheduled()) {
      engine_.hooks().at(Point::lock);
      continue;
    }
    if (spins < kSpins) {
      engine_.waiter().relax(spins);
      continue;
    }
    const double seconds = static_cast<double>(now_ns() - start) * 1e-9;
    if (seconds >= kMoment && on_long_wait != nullptr) (*std::exchange(on_long_wait, nullptr))(rank);
    engine_.waiter().check_interrupt("a call",
                                     [&] { return "a lock that " + engine_.members().describe(rank) + " holds"; });
    if (seconds >= next_warning || seconds >= options.timeout) {
      const std::string text =
          fmt::format("[rank {}] has waited {:.1f} s for a lock that {} holds; check whether that process is stopped",
                      engine_.world().rank(), seconds, engine_.members().describe(rank));
      if (seconds >= options.timeout) throw TimeoutError(text + kInPart);
      engine_.log().warn(text);
      next_warning += std::max(options.warn_after, 1.0);
    }
    if ((holder & kSleepers) == 0 && !word_.compare_exchange_weak(holder, holder | kSleepers)) continue;
    futex_wait(word_, holder | kSleepers, kSlice);
    want = mine() | kSleepers;  // others may sleep too, and only the holder can wake them
  }
}

}  // namespace pleiad

#include "engine/lock.h"

#include "core/process.h"

namespace pleiad {

void SharedLock::lock_slowly() {
  constexpr std::int64_t kSlice = 20'000'000;
  constexpr int kSpins = 400;
  std::uint32_t want = mine();
  for (int spins = 0;; ++spins) {
    std::uint32_t holder = word_.load(std::memory_order_relaxed);
    if (holder == 0) {
      if (word_.compare_exchange_weak(holder, want, std::memory_order_acquire)) return;
      continue;
    }
    const int rank = static_cast<int>(holder & ~kSleepers) - 1;
    if (engine_.life(rank) == Life::dead) {
      // Others may be asleep behind the dead holder: keep their mark.
      if (word_.compare_exchange_strong(holder, mine() | kSleepers, std::memory_order_acquire)) {
        taken_over_ = true;
        return;
      }
      continue;
    }
    if (engine_.scheduled()) {
      engine_.at(Point::lock);
      continue;
    }
    if (spins < kSpins) {
      engine_.relax(spins);
      continue;
    }
    if ((holder & kSleepers) == 0 && !word_.compare_exchange_weak(holder, holder | kSleepers)) continue;
    futex_wait(word_, holder | kSleepers, kSlice);
    want = mine() | kSleepers;  // others may sleep too, and only the holder can wake them
  }
}

}  // namespace pleiad

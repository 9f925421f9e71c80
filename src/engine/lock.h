// A lock in shared memory that outlives its holder. The word holds the holder's rank: whoever waits for a rank that
// died, or that has shut down and whose process has ended since, takes the lock over and is told so. (A POSIX robust
// mutex is released when the thread that holds it is gone, while other threads of the killed process may still be
// writing; here the whole process is gone before its rank is declared dead.)
#pragma once

#include <atomic>
#include <cstdint>

#include "core/function_ref.h"
#include "engine/engine.h"

namespace pleiad {

/// Guards `word`, which is zero while free. Not recursive. Holders do not block, so a wait is short; where the holder
/// is stopped it warns and at last fails, as any wait does.
class SharedLock {
 public:
  SharedLock(Engine& engine, std::atomic<std::uint32_t>& word, Point point = Point::lock)
      : engine_(engine), word_(word) {
    if (engine_.scheduled()) engine_.at(point);
    std::uint32_t free = 0;
    if (!word_.compare_exchange_strong(free, mine(), std::memory_order_acquire, std::memory_order_relaxed)) {
      lock_slowly();
    }
  }
  ~SharedLock() {
    if (engine_.killed()) return;
    if ((word_.exchange(0, std::memory_order_release) & kSleepers) != 0) futex_wake_one(word_);
  }
  SharedLock(const SharedLock&) = delete;
  SharedLock& operator=(const SharedLock&) = delete;

  /// True where the holder before died with the lock: what it guards may be half-changed.
  [[nodiscard]] bool taken_over() const { return taken_over_; }
  [[nodiscard]] int taken_from() const { return dead_; }

 private:
  static constexpr std::uint32_t kSleepers = 0x80000000;

  [[nodiscard]] std::uint32_t mine() const { return static_cast<std::uint32_t>(engine_.rank()) + 1; }
  void lock_slowly();

  Engine& engine_;
  std::atomic<std::uint32_t>& word_;
  bool taken_over_ = false;
  int dead_ = -1;
};

/// While one exists, its thread calls `call(holder)` once, as soon as it has waited for a SharedLock for a moment, and
/// then waits on. `call` outlives it.
class LongLockWait {
 public:
  explicit LongLockWait(const FunctionRef<void(int holder)>& call);
  ~LongLockWait();
  LongLockWait(const LongLockWait&) = delete;
  LongLockWait& operator=(const LongLockWait&) = delete;
};

}  // namespace pleiad

// A lock in shared memory that survives the death of its holder. The word stores the holder's rank. A waiter takes the
// lock over from a rank that died, and from one that left and whose process has ended since; it learns about this. (A
// POSIX robust mutex is released when the thread that holds it ends, while other threads of the killed process may
// still be writing. Here a rank is declared dead only after its whole process has ended.)
#pragma once

#include <atomic>
#include <cstdint>

#include "core/function_ref.h"
#include "engine/engine.h"

namespace pleiad {

/// Locks `word`, which is zero while free, for the lifetime of the object. Not recursive. Holders must not block, so
/// waits are short. If the holder is stopped, a waiter logs a warning and finally throws TimeoutError, as every wait
/// does.
class SharedLock {
 public:
  SharedLock(Engine& engine, std::atomic<std::uint32_t>& word, Point point = Point::lock)
      : engine_(engine), word_(word) {
    if (engine_.hooks().scheduled()) engine_.hooks().at(point);
    std::uint32_t free = 0;
    if (!word_.compare_exchange_strong(free, mine(), std::memory_order_acquire, std::memory_order_relaxed)) {
      lock_slowly();
    }
  }
  ~SharedLock() {
    if (engine_.hooks().killed()) return;
    if ((word_.exchange(0, std::memory_order_release) & kSleepers) != 0) futex_wake_one(word_);
  }
  SharedLock(const SharedLock&) = delete;
  SharedLock& operator=(const SharedLock&) = delete;

  /// Returns true if the previous holder died with the lock. The data that it guards may then be inconsistent.
  [[nodiscard]] bool taken_over() const { return taken_over_; }
  [[nodiscard]] int taken_from() const { return dead_; }

 private:
  static constexpr std::uint32_t kSleepers = 0x80000000;

  [[nodiscard]] std::uint32_t mine() const { return static_cast<std::uint32_t>(engine_.world().rank()) + 1; }
  void lock_slowly();

  Engine& engine_;
  std::atomic<std::uint32_t>& word_;
  bool taken_over_ = false;
  int dead_ = -1;
};

/// While one exists, its thread calls `call(holder)` once, as soon as it has waited briefly for a SharedLock, and then
/// continues to wait. `call` must outlive it.
class LongLockWait {
 public:
  explicit LongLockWait(const FunctionRef<void(int holder)>& call);
  ~LongLockWait();
  LongLockWait(const LongLockWait&) = delete;
  LongLockWait& operator=(const LongLockWait&) = delete;
};

}  // namespace pleiad

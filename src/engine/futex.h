// Sleeping on a word of memory that processes share.
#pragma once

#include <atomic>
#include <cstdint>

namespace pleiad {

/// Sleeps while `word` holds `expected`, for at most `nanoseconds`. May return spuriously.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, std::int64_t nanoseconds);

void futex_wake_one(const std::atomic<std::uint32_t>& word);
void futex_wake_all(const std::atomic<std::uint32_t>& word);

/// An event in shared memory. To signal it, first change the state with a sequentially consistent store, then call
/// notify(). A waiter increments `sleepers` before its last check of the state, so either the waiter sees the change or
/// notify() sees the waiter.
struct Event {
  std::atomic<std::uint32_t> generation{0};
  std::atomic<std::uint32_t> sleepers{0};

  void notify() {
    if (sleepers.load() == 0) return;
    generation.fetch_add(1);
    futex_wake_all(generation);
  }
};

}  // namespace pleiad

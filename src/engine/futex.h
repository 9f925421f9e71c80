// Sleeping on a word of memory that processes share.
#pragma once

#include <atomic>
#include <cstdint>

namespace pleiad {

/// Sleeps while `word` holds `expected`, at most `nanoseconds`. May wake for no reason.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, std::int64_t nanoseconds);

void futex_wake_one(const std::atomic<std::uint32_t>& word);
void futex_wake_all(const std::atomic<std::uint32_t>& word);

/// Something that others may wait for, in shared memory. Change the state first, by a sequentially consistent store,
/// then notify: a waiter counts itself before it looks at the state for the last time, so one of the two sees the
/// other.
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

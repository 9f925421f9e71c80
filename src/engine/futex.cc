#include "engine/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <limits>

namespace pleiad {

namespace {

long futex(const std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, const timespec* timeout) {
  return syscall(SYS_futex, reinterpret_cast<const std::uint32_t*>(&word), operation, value, timeout, nullptr, 0);
}

}  // namespace

void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, std::int64_t nanoseconds) {
  const timespec timeout{.tv_sec = nanoseconds / 1'000'000'000, .tv_nsec = nanoseconds % 1'000'000'000};
  futex(word, FUTEX_WAIT, expected, &timeout);
}

void futex_wake_one(const std::atomic<std::uint32_t>& word) { futex(word, FUTEX_WAKE, 1, nullptr); }

void futex_wake_all(const std::atomic<std::uint32_t>& word) {
  futex(word, FUTEX_WAKE, std::numeric_limits<std::int32_t>::max(), nullptr);
}

}  // namespace pleiad

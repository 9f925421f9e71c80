// Waits for conditions in other threads and processes, without a fixed time.
#pragma once

#include <chrono>
#include <thread>

namespace pleiad {

/// Polls until `happened()` is true. Returns false if that takes longer than ten minutes.
template <class F>
[[nodiscard]] bool eventually(F&& happened, std::chrono::milliseconds between = std::chrono::milliseconds(1)) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(10);
  while (!happened()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(between);
  }
  return true;
}

}  // namespace pleiad

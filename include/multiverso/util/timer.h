// A stopwatch.
#pragma once

#include <chrono>

namespace multiverso {

class Timer {
 public:
  void Start() { start_ = Clock::now(); }
  /// Returns the milliseconds since Start, or since construction.
  double elapse() const { return std::chrono::duration<double, std::milli>(Clock::now() - start_).count(); }

 private:
  typedef std::chrono::steady_clock Clock;
  Clock::time_point start_ = Clock::now();
};

}  // namespace multiverso

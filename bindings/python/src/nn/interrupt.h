// Detects Ctrl-C during a call into C++, on any thread. Python's own handlers run only on the main thread, which waits.
#pragma once

#include <atomic>
#include <csignal>
#include <cstdint>

#include "core/process.h"

namespace pleiad::python {

/// While an object of this class exists, SIGINT is recorded before Python's handler runs. Does nothing if Python does
/// not handle SIGINT.
class Interrupt {
 public:
  Interrupt() {
    struct sigaction now{};
    sigaction(SIGINT, nullptr, &now);
    // Another thread may already have installed this handler.
    if (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN || now.sa_handler == &Interrupt::note) return;
    old() = now;
    struct sigaction mine = now;
    mine.sa_flags &= ~SA_SIGINFO;
    mine.sa_handler = &Interrupt::note;
    at() = 0;
    owns_ = sigaction(SIGINT, &mine, nullptr) == 0;
  }
  ~Interrupt() {
    if (!owns_) return;
    sigaction(SIGINT, &old(), nullptr);
    at() = 0;
  }
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  [[nodiscard]] static bool raised() { return at() != 0; }
  /// True some time after the signal: the current step may complete, but a wait for a missing peer must end.
  [[nodiscard]] static bool overdue() {
    constexpr std::int64_t kGrace = 2'000'000'000;
    const std::int64_t since = at();
    return since != 0 && now_ns() - since > kGrace;
  }

 private:
  static void note(int number) {
    if (at() == 0) at() = now_ns();
    old().sa_handler(number);
  }
  static std::atomic<std::int64_t>& at() {  // process-wide, as signals are
    static std::atomic<std::int64_t> when = 0;
    return when;
  }
  static struct sigaction& old() {
    static struct sigaction action{};
    return action;
  }
  bool owns_ = false;
};

}  // namespace pleiad::python

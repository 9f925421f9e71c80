// Turns SIGINT and SIGTERM into a flag that a run can poll.
#pragma once

#include <array>
#include <atomic>
#include <csignal>

namespace pleiad {

/// While an object lives, SIGINT and SIGTERM set a flag, and a second signal of the same kind ends the process. Does
/// not touch signals that the program handles itself.
class Interrupt {
 public:
  Interrupt() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      struct sigaction old{};
      sigaction(kSignals[i], nullptr, &old);
      if (old.sa_handler != SIG_DFL) continue;
      raised_flag() = false;
      struct sigaction mine{};
      mine.sa_handler = [](int) { raised_flag() = true; };
      sigemptyset(&mine.sa_mask);
      mine.sa_flags = SA_RESETHAND;
      owns_[i] = sigaction(kSignals[i], &mine, nullptr) == 0;
    }
  }
  ~Interrupt() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      if (owns_[i]) std::signal(kSignals[i], SIG_DFL);
    }
  }
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  [[nodiscard]] bool raised() const { return (owns_[0] || owns_[1]) && raised_flag(); }

 private:
  static constexpr std::array<int, 2> kSignals = {SIGINT, SIGTERM};
  static std::atomic<bool>& raised_flag() {  // static, because signal handlers belong to the process
    static std::atomic<bool> flag = false;
    return flag;
  }
  std::array<bool, 2> owns_{};
};

}  // namespace pleiad

// Ctrl-C while it lives, as something to ask about. Leaves SIGINT alone where somebody else handles it.
#pragma once

#include <atomic>
#include <csignal>

namespace pleiad {

class Interrupt {
 public:
  Interrupt() {
    struct sigaction old{};
    sigaction(SIGINT, nullptr, &old);
    if (old.sa_handler != SIG_DFL) return;
    raised_flag() = false;
    struct sigaction mine{};
    mine.sa_handler = [](int) { raised_flag() = true; };
    sigemptyset(&mine.sa_mask);
    mine.sa_flags = SA_RESETHAND;  // a second Ctrl-C ends the process
    owns_ = sigaction(SIGINT, &mine, nullptr) == 0;
  }
  ~Interrupt() {
    if (owns_) std::signal(SIGINT, SIG_DFL);
  }
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  [[nodiscard]] bool raised() const { return owns_ && raised_flag(); }

 private:
  static std::atomic<bool>& raised_flag() {  // signals belong to the process
    static std::atomic<bool> flag = false;
    return flag;
  }
  bool owns_ = false;
};

}  // namespace pleiad

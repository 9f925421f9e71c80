// Shows progress: one line that is updated on a terminal, separate lines in a log.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <string>

class Progress {
 public:
  explicit Progress(bool shown) : shown_(shown), terminal_(isatty(STDERR_FILENO) != 0) {}
  ~Progress() {
    if (shown_ && terminal_ && drawn_) std::fputc('\n', stderr);
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Shows that the fraction `share` of the work is done, with a status text.
  void show(double share, const std::string& text) {
    if (!shown_) return;
    constexpr int kWidth = 28;
    if (terminal_) {
      const int full = static_cast<int>(share * kWidth);
      std::fprintf(stderr, "\r[%s%s] %3.0f%%  %s\033[K", std::string(static_cast<std::size_t>(full), '=').c_str(),
                   std::string(static_cast<std::size_t>(kWidth - full), ' ').c_str(), share * 100, text.c_str());
      drawn_ = true;
    } else if (share >= next_) {
      std::fprintf(stderr, "%3.0f%%  %s\n", share * 100, text.c_str());
      while (next_ <= share) next_ += 0.1;
    }
    std::fflush(stderr);
  }

 private:
  bool shown_;
  bool terminal_;
  bool drawn_ = false;
  double next_ = 0;
};

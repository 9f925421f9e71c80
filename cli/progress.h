// Shows the progress of a long operation: one line that is updated on a terminal, separate lines in a log. The commands
// and the examples use it.
#pragma once

#include <unistd.h>

#include <chrono>
#include <concepts>
#include <cstdio>
#include <string>

namespace pleiad::cli {

class Progress {
 public:
  /// With `shown` false, for example on all ranks but one, show() does nothing.
  explicit Progress(bool shown = true) : shown_(shown), terminal_(isatty(STDERR_FILENO) != 0) {}
  ~Progress() {
    if (drawn_) std::fputc('\n', stderr);
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Shows that the fraction `share` of the work is done, with the status that `text` returns. Draws ten times a second
  /// on a terminal, and at each tenth of the work in a log; otherwise it does not call `text`.
  template <std::invocable Text>
  void show(double share, const Text& text) {
    if (!shown_) return;
    const auto now = std::chrono::steady_clock::now();
    const bool due = terminal_ ? share >= 1 || now - drawn_at_ >= std::chrono::milliseconds(100) : share >= next_;
    if (!due) return;
    drawn_at_ = now;
    while (next_ <= share) next_ += 0.1;
    draw(share, text());
  }
  void show(double share, const std::string& text) {
    show(share, [&] { return text; });
  }

 private:
  void draw(double share, const std::string& text) {
    constexpr int kWidth = 28;
    if (terminal_) {
      const int full = static_cast<int>(share * kWidth);
      std::fprintf(stderr, "\r[%s%s] ", std::string(static_cast<std::size_t>(full), '=').c_str(),
                   std::string(static_cast<std::size_t>(kWidth - full), ' ').c_str());
    }
    std::fprintf(stderr, "%3.0f%%  %s%s", share * 100, text.c_str(), terminal_ ? "\033[K" : "\n");
    std::fflush(stderr);
    drawn_ = terminal_;
  }

  bool shown_;
  bool terminal_;
  bool drawn_ = false;
  double next_ = 0;
  std::chrono::steady_clock::time_point drawn_at_ = {};
};

}  // namespace pleiad::cli

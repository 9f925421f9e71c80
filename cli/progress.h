// The progress of a long operation: one line that is updated on a terminal, separate lines in a log.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>

#include "core/text.h"

namespace pleiad::cli {

class Progress {
 public:
  Progress(std::string what, std::int64_t total)
      : what_(std::move(what)), total_(total), terminal_(isatty(STDERR_FILENO) != 0) {}
  ~Progress() {
    if (drawn_) fmt::print(stderr, "\n");
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Prints the progress: ten times a second on a terminal, at each tenth of the work in a log.
  void show(std::int64_t done) {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - start_).count();
    const bool due = terminal_ ? done == total_ || now - shown_ >= std::chrono::milliseconds(100) : done >= next_;
    if (!due) return;
    shown_ = now;
    while (next_ <= done) next_ += total_ / 10 + 1;
    const double share = static_cast<double>(done) / static_cast<double>(total_);
    const std::string rate =
        seconds > 0 ? grouped(static_cast<std::int64_t>(static_cast<double>(done) / seconds)) : "?";
    const std::string text = fmt::format("{} {:3.0f}%  {} of {} records, {} a second", what_, share * 100,
                                         grouped(done), grouped(total_), rate);
    fmt::print(stderr, "{}{}{}", terminal_ ? "\r" : "", text, terminal_ ? "\033[K" : "\n");
    std::fflush(stderr);
    drawn_ = terminal_;
  }

 private:
  std::string what_;
  std::int64_t total_;
  bool terminal_;
  bool drawn_ = false;
  std::int64_t next_ = 1;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point shown_ = {};
};

}  // namespace pleiad::cli

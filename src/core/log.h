// Writes log lines to stderr, or to a sink of the program, with rank and host.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace spdlog {
class logger;
}

namespace pleiad {

[[nodiscard]] std::vector<std::string> log_levels();

/// Receives the lines of the level debug, info, warn or error that would go to stderr. Any thread may call it, also
/// while it holds locks of the engine, so it must not wait for another thread.
using LogSink = std::function<void(std::string_view level, std::string_view line)>;
/// Sends the lines of all logs of this process to `sink`, with rank and host; an empty sink restores stderr.
void set_log_sink(LogSink sink);

/// Writes lines to stderr, or to the sink of the process.
class Log {
 public:
  /// Throws InvalidArgument unless `level` is one of log_levels().
  Log(std::string_view level, int rank, int size, std::string_view host);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  void debug(std::string_view line) const;
  void info(std::string_view line) const;
  void warn(std::string_view line) const;
  void error(std::string_view line) const;
  /// Prints at every level, for output that the user has requested.
  void print(std::string_view line) const;

 private:
  std::unique_ptr<spdlog::logger> logger_;
};

}  // namespace pleiad

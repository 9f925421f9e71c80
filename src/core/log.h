// Writes log lines to stderr, with rank and host.
#pragma once

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

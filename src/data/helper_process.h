// Runs one of Pleiad's own helper programs in a separate process.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace pleiad::data {

/// Starts a program that is installed beside the library, with pipes to its stdin and from its stdout. Every wait has a
/// deadline, after which the program is killed. Every failure throws a FileError that begins with `where`. Not
/// thread-safe.
class HelperProcess {
 public:
  HelperProcess(const std::string& program, const std::vector<std::string>& arguments, std::string where);
  /// Kills the program if it is still running.
  ~HelperProcess();
  HelperProcess(const HelperProcess&) = delete;
  HelperProcess& operator=(const HelperProcess&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// Closes the program's stdin. Call it after the last write.
  void close_input();
  /// Reads up to the end of a line and returns the text without it.
  [[nodiscard]] std::string read_line();
  /// Reads exactly out.size() bytes.
  void read(std::span<std::byte> out);

 private:
  [[noreturn]] void fail(const std::string& what);
  /// Waits for the program and describes how it ended.
  std::string ending();
  std::size_t read_some(std::span<std::byte> out);

  std::string program_;
  std::string where_;
  pid_t process_ = -1;
  int input_ = -1;
  int output_ = -1;
};

}  // namespace pleiad::data

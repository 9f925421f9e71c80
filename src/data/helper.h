// A program of ours that does a piece of work in a process of its own.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace pleiad::data {

/// Started with pipes to its stdin and from its stdout; it lies beside the library. Every wait for it has a deadline,
/// after which it is ended. A FileError that begins with `where` for everything that goes wrong. One thread at a time.
class Helper {
 public:
  Helper(const std::string& program, const std::vector<std::string>& arguments, std::string where);
  /// Ends it where it has not ended.
  ~Helper();
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// After the last of what is written.
  void close_input();
  /// Up to a line's end, without it.
  [[nodiscard]] std::string read_line();
  /// Fills `out`.
  void read(std::span<std::byte> out);

 private:
  [[noreturn]] void fail(const std::string& what);
  /// Says how it ended; waits for it.
  std::string ending();
  std::size_t read_some(std::span<std::byte> out);

  std::string program_;
  std::string where_;
  pid_t process_ = -1;
  int input_ = -1;
  int output_ = -1;
};

}  // namespace pleiad::data

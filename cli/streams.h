// Standard input and output of ranks that `pleiad launch` starts without mpirun.
#pragma once

#include <poll.h>

#include <string>
#include <string_view>
#include <vector>

namespace pleiad::cli {

/// Ranks write to this process's own output or, if tagged, into pipes, whose lines are printed with the rank as prefix.
/// Rank 0 reads this process's standard input: directly, or through a pipe if it is a terminal, because a process of
/// another process group may not read from a terminal.
class Streams {
 public:
  Streams() = default;
  ~Streams();
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  /// A rank's file descriptors; -1: this process's own.
  struct Ends {
    int in = -1;
    int out = -1;
    int err = -1;
    void use() const;        ///< in the rank's process: makes them its standard streams
    void close_all() const;  ///< in this process, after the fork
  };
  [[nodiscard]] Ends open(int rank, bool tagged);

  /// Appends the file descriptors to poll.
  void watch(std::vector<pollfd>& watched) const;
  /// Forwards all available data without blocking.
  void pump();
  /// Called after the ranks have ended: forwards the remaining data.
  void finish();

 private:
  struct Output {
    int from = -1;
    int to = -1;
    std::string tag;
    std::string line;  // an incomplete line
  };
  void pump(Output& output);
  /// Writes a line with its tag. On a terminal, it first erases what show_progress has written there.
  void write_line(const Output& output, std::string_view line);
  /// Shows the incomplete line of an output on the terminal if it is a progress bar, which a carriage return begins.
  void show_progress(Output& output);
  void pump_input();

  std::vector<Output> outputs_;
  bool progress_ = false;  // the terminal's last line is a progress bar
  int input_ = -1;         // the write end of rank 0's pipe
  std::string pending_;
};

}  // namespace pleiad::cli

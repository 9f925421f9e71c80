// Standard input and output of ranks that `pleiad launch` starts by itself.
#pragma once

#include <poll.h>

#include <string>
#include <vector>

namespace pleiad::cli {

/// Ranks write to this process's own output, or, tagged, into pipes whose lines are passed on with the rank before
/// them. Rank 0 reads this process's standard input: directly, or over a pipe if it is a terminal, which a process of
/// another group may not read.
class Streams {
 public:
  Streams() = default;
  ~Streams();
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  /// A rank's ends; -1: this process's own.
  struct Ends {
    int in = -1;
    int out = -1;
    int err = -1;
    void use() const;        ///< in the rank's process: becomes its standard streams
    void close_all() const;  ///< in this process, after the fork
  };
  [[nodiscard]] Ends open(int rank, bool tagged);

  /// Adds what has to be watched.
  void watch(std::vector<pollfd>& watched) const;
  /// Passes on whatever is there, without blocking.
  void pump();
  /// The ranks have ended: passes on the rest.
  void finish();

 private:
  struct Output {
    int from = -1;
    int to = -1;
    std::string tag;
    std::string line;  // incomplete
  };
  void pump(Output& output);
  void pump_input();

  std::vector<Output> outputs_;
  int input_ = -1;  // the writing end of rank 0's pipe
  std::string pending_;
};

}  // namespace pleiad::cli

// Detection of deadlocks among the ranks of one host.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/rank_context.h"

namespace pleiad {

/// Compares the states of all ranks of this host during one wait to find out that every rank waits for another one. A
/// slow rank is no false alarm; docs/design.md explains why.
class DeadlockDetector {
 public:
  explicit DeadlockDetector(const RankContext& context) : context_(context) {}

  /// Returns true if no rank can make progress: every live rank was stuck at one moment and has since checked twice in
  /// vain, while the processes were idle. A thread that Pleiad does not know may still make a call. So if there are
  /// such threads, or if a rank waits for a message, which any thread may send, the state must last until the first
  /// warning. `seconds` is the time since the wait began.
  [[nodiscard]] bool deadlocked(double seconds);

 private:
  // The observed state of a rank at one moment.
  struct RankSample {
    std::uint64_t changes;
    std::uint64_t polls;
    std::int64_t cpu;  ///< of its process, without the checks of this rank
  };

  [[nodiscard]] bool has_unknown_threads() const;

  const RankContext& context_;
  std::vector<RankSample> previous_;
  double previous_seconds_ = 0;
};

}  // namespace pleiad

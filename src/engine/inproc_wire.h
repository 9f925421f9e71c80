// Between the hosts of an inproc world: what MPI does for processes.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <span>
#include <tuple>
#include <vector>

#include "engine/futex.h"

namespace pleiad {

/// All ranks of the world share one. Slots alternate by the parity of the round: whoever has seen all come to a round
/// knows that all are done with the one before.
class InprocWire {
 public:
  explicit InprocWire(int ranks) : slots_(static_cast<std::size_t>(ranks)) {}

  /// Brings a rank's bytes to a round, counted from one.
  void bring(int rank, std::uint64_t round, std::span<const char> bytes);
  [[nodiscard]] bool came(int rank, std::uint64_t round) const;
  /// What a rank brought, once it came.
  [[nodiscard]] const std::vector<char>& brought(int rank, std::uint64_t round) const;

  using Way = std::tuple<int, int, std::uint32_t>;  ///< from, to, tag
  void send(const Way& way, std::span<const char> bytes);
  /// The size of the next message, or -1.
  [[nodiscard]] std::int64_t waiting(const Way& way);
  [[nodiscard]] std::vector<char> receive(const Way& way);

  Event moved;

 private:
  struct Slot {
    std::atomic<std::uint64_t> round{0};
    std::array<std::vector<char>, 2> bytes;
  };
  std::vector<Slot> slots_;
  std::mutex mutex_;
  std::map<Way, std::deque<std::vector<char>>> letters_;  // guarded by mutex_
};

}  // namespace pleiad

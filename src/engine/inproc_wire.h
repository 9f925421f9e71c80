// The transport between the hosts of an inproc world, in place of MPI.
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

/// Shared by all ranks of the world. Slots alternate by the parity of the round: a rank that has seen all others reach
/// a round knows that all have finished with the round before.
class InprocWire {
 public:
  explicit InprocWire(int ranks) : slots_(static_cast<std::size_t>(ranks)) {}

  /// Deposits a rank's bytes for a round; rounds start at 1.
  void bring(int rank, std::uint64_t round, std::span<const char> bytes);
  [[nodiscard]] bool came(int rank, std::uint64_t round) const;
  /// The bytes that a rank deposited. Requires came(rank, round).
  [[nodiscard]] const std::vector<char>& brought(int rank, std::uint64_t round) const;

  using Way = std::tuple<int, int, std::uint32_t>;  ///< from, to, tag
  void send(const Way& way, std::span<const char> bytes);
  /// Returns the size of the next message, or -1 if there is none.
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

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
class InprocTransport {
 public:
  explicit InprocTransport(int ranks) : slots_(static_cast<std::size_t>(ranks)) {}

  /// Deposits a rank's bytes for a round; rounds start at 1.
  void deposit(int rank, std::uint64_t round, std::span<const char> bytes);
  [[nodiscard]] bool arrived(int rank, std::uint64_t round) const;
  /// The bytes that a rank deposited. Requires came(rank, round).
  [[nodiscard]] const std::vector<char>& deposited(int rank, std::uint64_t round) const;

  using Route = std::tuple<int, int, std::uint32_t>;  ///< from, to, tag
  void send(const Route& route, std::span<const char> bytes);
  /// Returns the size of the next message, or -1 if there is none.
  [[nodiscard]] std::int64_t next_size(const Route& route);
  [[nodiscard]] std::vector<char> receive(const Route& route);

  Event moved;

 private:
  struct Slot {
    std::atomic<std::uint64_t> round{0};
    std::array<std::vector<char>, 2> bytes;
  };
  std::vector<Slot> slots_;
  std::mutex mutex_;
  std::map<Route, std::deque<std::vector<char>>> messages_;  // guarded by mutex_
};

}  // namespace pleiad

// Messages that arrived before a matching receive.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include "engine/futex.h"

namespace pleiad {

/// Allows one writer at a time to each rank and one reader at a time from each. Other threads wait.
struct UnexpectedMessages {
  explicit UnexpectedMessages(int size) : peers(static_cast<std::size_t>(size)) {}

  /// Exclusive access for one thread at a time.
  struct ExclusiveAccess {
    std::atomic<bool> taken{false};
    Event moved;  ///< notified when the access is free again or its holder has made progress
  };

  struct Peer {
    ExclusiveAccess writing;
    ExclusiveAccess reading;
    std::mutex mutex;
    std::map<std::uint32_t, std::deque<std::vector<char>>> unexpected;  // by tag; guarded by mutex
  };
  std::vector<Peer> peers;
};

}  // namespace pleiad

// Messages that arrived before somebody asked for them.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include "engine/engine.h"

namespace pleiad {

/// One writer at a time to each rank, one reader at a time from each; the others wait as everybody does.
struct Engine::Inbox {
  explicit Inbox(int size) : peers(static_cast<std::size_t>(size)) {}

  /// Something that one thread at a time has.
  struct Seat {
    std::atomic<bool> taken{false};
    Event moved;  ///< it is free again, or what its holder does has led to something
  };

  struct Peer {
    Seat writing;
    Seat reading;
    std::mutex mutex;
    std::map<std::uint32_t, std::deque<std::vector<char>>> early;  // guarded by mutex
  };
  std::vector<Peer> peers;
};

}  // namespace pleiad

// Messages that arrived before somebody asked for them.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include "engine/engine.h"

namespace pleiad {

/// One writer at a time to each rank, one reader at a time from each.
struct Engine::Inbox {
  explicit Inbox(int size) : peers(static_cast<std::size_t>(size)) {}

  struct Peer {
    std::mutex sending;
    std::mutex receiving;
    std::map<std::uint32_t, std::deque<std::vector<char>>> early;  // guarded by receiving
  };
  std::vector<Peer> peers;
};

}  // namespace pleiad

// The peer of bench/lua.lua and bench/python.py: the same add and get through the C++ API, timed in the same process.
#include <chrono>
#include <memory>
#include <vector>

#include "pleiad/pleiad.hpp"

namespace {

struct Peer {
  explicit Peer(std::int64_t size)
      : session(pleiad::Session::start({.engine = "solo", .log_level = "off"})),
        table(session.create_array(size)),
        delta(static_cast<std::size_t>(size), 1.0F),
        out(static_cast<std::size_t>(size)) {}
  pleiad::Session session;
  pleiad::ArrayTable table;
  std::vector<float> delta;
  std::vector<float> out;
};

}  // namespace

extern "C" {

PLEIAD_API void* cpp_peer_open(std::int64_t size) { return new Peer(size); }

/// Returns the mean time of an add and a get in microseconds, over `repeats`. With `fresh`, each get fills a new
/// vector.
PLEIAD_API double cpp_peer_turn(void* handle, std::int64_t repeats, int fresh) {
  auto& peer = *static_cast<Peer*>(handle);
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < repeats; ++i) {
    peer.table.add(peer.delta);
    if (fresh != 0) peer.out = std::vector<float>(peer.delta.size());
    peer.table.get(peer.out);
  }
  const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - start;
  return spent.count() / static_cast<double>(repeats);
}

PLEIAD_API void cpp_peer_close(void* handle) {
  const std::unique_ptr<Peer> peer(static_cast<Peer*>(handle));
  peer->session.shutdown();
}

}  // extern "C"

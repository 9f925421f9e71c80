// The TCP sockets at which other hosts connect to this process. ZeroMQ gets them, and limits hold for
// everyone who has not completed a handshake.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include <zmq.hpp>

namespace pleiad {

/// Limits how many handshakes are under way at once, so that strangers take little memory: ZeroMQ itself accepts
/// everyone, and keeps up to one message of each. While there are too many, the kernel drops requests for new
/// connections (clients repeat them by themselves); connections that exist are not affected. Used by the thread that
/// owns the router.
class Listener {
 public:
  static constexpr std::size_t kHandshakes = 32;
  static constexpr int kBacklog = 32;
  static constexpr int kHandshakeMs = 3000;  ///< a connection that takes longer is closed

  /// Listens at each of `addresses` (IPv4, host byte order) with one port, which the kernel chooses. A TransportError
  /// says why it cannot. The router's own options are set before.
  Listener(zmq::context_t& context, zmq::socket_t& router, const std::vector<std::uint32_t>& addresses);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  [[nodiscard]] int port() const { return port_; }
  /// Has something to read when look() has something to do.
  [[nodiscard]] zmq::socket_t& events() { return events_; }
  /// Counts handshakes and opens or closes the port accordingly. Returns how many connections have ended before they
  /// had shown the job's key since the last call that returned a number; at most one in ten seconds does.
  [[nodiscard]] std::size_t look(std::int64_t now);
  /// Counts a connection whose proof is wrong.
  void count_refusal() { ++refused_; }
  /// True while requests for connections are dropped.
  [[nodiscard]] bool full() const { return full_; }

 private:
  [[nodiscard]] bool open(const std::vector<std::uint32_t>& addresses);
  void close_all();
  void set_full(bool full);
  void make_room();

  std::vector<int> sockets_;
  int port_ = 0;
  int spare_ = -1;  ///< closed for a moment when no other descriptor is left
  zmq::socket_t events_;
  std::map<int, std::int64_t> accepted_;  // when, by descriptor: the connections that may be in their handshake
  std::deque<std::int64_t> completed_;    // when handshakes were completed
  bool full_ = false;
  std::size_t refused_ = 0;
  std::int64_t told_ = 0;
  std::int64_t looked_ = 0;  ///< for descriptors
};

}  // namespace pleiad

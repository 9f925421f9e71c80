// The TCP sockets at which other hosts connect to this process. ZeroMQ serves them. Limits apply to every peer that has
// not completed a handshake.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include <zmq.hpp>

namespace pleiad {

/// Limits the number of concurrent handshakes, so that unknown peers consume little memory: ZeroMQ itself accepts every
/// connection and keeps up to one message of each. Above the limit the kernel drops requests for new connections, which
/// clients repeat automatically; existing connections are not affected. Only the thread that owns the router may use
/// it.
class Listener {
 public:
  static constexpr std::size_t kHandshakes = 32;
  static constexpr int kBacklog = 32;
  static constexpr int kHandshakeMs = 3000;  ///< slower connections are closed

  /// Listens at each of `addresses` (IPv4, host byte order) on one port that the kernel chooses. Throws TransportError
  /// with the reason if that fails. The caller sets the router's own options first.
  Listener(zmq::context_t& context, zmq::socket_t& router, const std::vector<std::uint32_t>& addresses);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  [[nodiscard]] int port() const { return port_; }
  /// Becomes readable when look() has work to do.
  [[nodiscard]] zmq::socket_t& events() { return events_; }
  /// Counts handshakes and opens or closes the port accordingly. Returns how many connections ended before they showed
  /// the job's key, since the last call that returned a positive count. At most one call in ten seconds does.
  [[nodiscard]] std::size_t update(std::int64_t now);
  /// Counts a connection whose authentication failed.
  void count_refusal() { ++refused_; }
  /// Returns true while requests for connections are dropped.
  [[nodiscard]] bool full() const { return full_; }

 private:
  [[nodiscard]] bool open(const std::vector<std::uint32_t>& addresses);
  void close_all();
  void set_full(bool full);
  void free_descriptor();

  std::vector<int> sockets_;
  int port_ = 0;
  int spare_ = -1;  ///< closed temporarily when the process runs out of descriptors
  zmq::socket_t events_;
  std::map<int, std::int64_t>
      accepted_;                        // time of acceptance, by descriptor: connections that may be in their handshake
  std::deque<std::int64_t> completed_;  // when handshakes were completed
  bool full_ = false;
  std::size_t refused_ = 0;
  std::int64_t reported_ = 0;
  std::int64_t checked_ = 0;  ///< time of the last check for descriptors
};

}  // namespace pleiad

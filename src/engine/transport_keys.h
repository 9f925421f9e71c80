// Encryption between hosts: CURVE, ZeroMQ's own, with keys that only processes of the job can know.
#pragma once

#include <array>
#include <cstdint>

#include <zmq.hpp>

#include "engine/job_key.h"

namespace pleiad {

/// Key pairs of CURVE, derived from the job's key. All servers of a job have one pair, all clients the other, and no
/// one else knows any of the four keys: whoever completes a handshake belongs to the job.
struct TransportKeys {
  using Key = std::array<std::uint8_t, 32>;

  explicit TransportKeys(const JobKey& key);

  /// Before the socket binds or connects: from then on every byte is encrypted and authenticated, with keys made for
  /// each connection.
  void make_server(zmq::socket_t& socket) const;
  void make_client(zmq::socket_t& socket) const;

  Key server_secret{};
  Key server_public{};
  Key client_secret{};
  Key client_public{};
};

/// Decides for ZeroMQ which clients may connect to the servers of a context (ZAP, ZeroMQ's RFC 27): those with the
/// client key of the job. One for each context, made before its servers bind. A client whose request is not answered
/// within the time for a handshake tries again.
class ClientCheck {
 public:
  ClientCheck(zmq::context_t& context, const TransportKeys& keys);

  /// Has something to read when there are requests to answer.
  [[nodiscard]] zmq::socket_t& socket() { return socket_; }
  /// Answers all requests that are there. By the thread that owns the socket.
  void answer();

 private:
  TransportKeys::Key client_;
  zmq::socket_t socket_;
};

}  // namespace pleiad

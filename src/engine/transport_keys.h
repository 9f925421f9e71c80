// Encryption between hosts with ZeroMQ's CURVE and keys that only processes of the job can know.
#pragma once

#include <array>
#include <cstdint>

#include <zmq.hpp>

#include "engine/job_key.h"

namespace pleiad {

/// The CURVE key pairs, derived from the job's key. All servers of a job share one pair and all clients the other. No
/// other process knows any of the four keys, so a peer that completes a handshake belongs to the job.
struct TransportKeys {
  using Key = std::array<std::uint8_t, 32>;

  explicit TransportKeys(const JobKey& key);

  /// Must be called before the socket binds or connects. From then on all bytes are encrypted and authenticated, with
  /// keys made for each connection.
  void make_server(zmq::socket_t& socket) const;
  void make_client(zmq::socket_t& socket) const;

  Key server_secret{};
  Key server_public{};
  Key client_secret{};
  Key client_public{};
};

/// Tells ZeroMQ which clients may connect to the servers of a context (ZAP, ZeroMQ's RFC 27): those with the client key
/// of the job. Make one per context, before its servers bind. A client whose request is not answered within the time
/// limit of a handshake tries again.
class ZapHandler {
 public:
  ZapHandler(zmq::context_t& context, const TransportKeys& keys);

  /// Becomes readable when there are requests to answer.
  [[nodiscard]] zmq::socket_t& socket() { return socket_; }
  /// Answers all pending requests. Only the thread that owns the socket may call it.
  void answer();

 private:
  TransportKeys::Key client_;
  zmq::socket_t socket_;
};

}  // namespace pleiad

#include "engine/transport_keys.h"

#include <sodium.h>

#include <cstring>
#include <string_view>
#include <vector>

#include <zmq_addon.hpp>

#include "engine/authentication.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {

// Derives a secret key for one purpose from the job's key.
TransportKeys::Key derived(const JobKey& key, std::string_view purpose) {
  TransportKeys::Key secret{};
  crypto_generichash(secret.data(), secret.size(), reinterpret_cast<const unsigned char*>(purpose.data()),
                     purpose.size(), reinterpret_cast<const unsigned char*>(&key), sizeof key);
  return secret;
}

TransportKeys::Key public_of(const TransportKeys::Key& secret) {
  TransportKeys::Key result{};
  if (crypto_scalarmult_base(result.data(), secret.data()) != 0) throw InternalError("cannot compute a public key");
  return result;
}

zmq::const_buffer bytes(const TransportKeys::Key& key) { return zmq::buffer(key); }

}  // namespace

TransportKeys::TransportKeys(const JobKey& key) {
  init_sodium();
  server_secret = derived(key, "pleiad transport server");
  server_public = public_of(server_secret);
  client_secret = derived(key, "pleiad transport client");
  client_public = public_of(client_secret);
}

void TransportKeys::make_server(zmq::socket_t& socket) const {
  socket.set(zmq::sockopt::curve_server, true);
  socket.set(zmq::sockopt::curve_secretkey, bytes(server_secret));
  socket.set(zmq::sockopt::zap_domain, "pleiad");
}

void TransportKeys::make_client(zmq::socket_t& socket) const {
  socket.set(zmq::sockopt::curve_serverkey, bytes(server_public));
  socket.set(zmq::sockopt::curve_publickey, bytes(client_public));
  socket.set(zmq::sockopt::curve_secretkey, bytes(client_secret));
}

ZapHandler::ZapHandler(zmq::context_t& context, const TransportKeys& keys)
    : client_(keys.client_public), socket_(context, zmq::socket_type::rep) {
  socket_.set(zmq::sockopt::linger, 0);
  socket_.bind("inproc://zeromq.zap.01");
}

void ZapHandler::answer() {
  for (;;) {
    // The request's parts are version, request id, domain, address, identity, mechanism and the client's key.
    std::vector<zmq::message_t> request;
    if (!zmq::recv_multipart(socket_, std::back_inserter(request), zmq::recv_flags::dontwait)) return;
    const bool known = request.size() == 7 && request[5].to_string_view() == "CURVE" &&
                       request[6].size() == client_.size() &&
                       sodium_memcmp(request[6].data(), client_.data(), client_.size()) == 0;
    const std::string_view id = request.size() > 1 ? request[1].to_string_view() : std::string_view();
    const std::array<zmq::const_buffer, 6> reply = {zmq::str_buffer("1.0"),
                                                    zmq::buffer(id),
                                                    known ? zmq::str_buffer("200") : zmq::str_buffer("400"),
                                                    known ? zmq::str_buffer("OK") : zmq::str_buffer("not of this job"),
                                                    zmq::str_buffer(""),
                                                    zmq::str_buffer("")};
    (void)zmq::send_multipart(socket_, reply);
  }
}

}  // namespace pleiad

#include "engine/listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "engine/address.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {

constexpr std::int64_t kHandshakeNs = std::int64_t{Listener::kHandshakeMs} * 1'000'000;
constexpr std::int64_t kCheckInterval = 50'000'000;
constexpr std::int64_t kReportInterval = 10'000'000'000;
constexpr int kEvents = ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED;

}  // namespace

Listener::Listener(zmq::context_t& context, zmq::socket_t& router, const std::vector<std::uint32_t>& addresses)
    : events_(context, zmq::socket_type::pair) {
  constexpr int kAttempts = 20;  // another process may own the port on a later address
  bool ready = false;
  for (int attempt = 0; !ready && attempt < kAttempts; ++attempt) ready = open(addresses);
  if (!ready)
    throw TransportError(fmt::format("cannot listen for connections of other hosts: {}", std::strerror(errno)));
  const std::string name = fmt::format("inproc://connections-{}", port_);
  // A flood of events must not block ZeroMQ's thread.
  events_.set(zmq::sockopt::rcvhwm, 0);
  events_.set(zmq::sockopt::linger, 0);
  if (zmq_socket_monitor(router.handle(), name.c_str(), kEvents) != 0) throw zmq::error_t();
  events_.connect(name);
  spare_ = eventfd(0, EFD_CLOEXEC);
  for (std::size_t i = 0; i < sockets_.size(); ++i) {
    // ZeroMQ closes the descriptor that it receives, so it receives a duplicate.
    const int copy = fcntl(sockets_[i], F_DUPFD_CLOEXEC, 0);
    if (copy < 0)
      throw TransportError(fmt::format("cannot listen for connections of other hosts: {}", std::strerror(errno)));
    router.set(zmq::sockopt::use_fd, copy);
    router.bind(fmt::format("tcp://{}:{}", to_text(addresses[i]), port_));
  }
}

Listener::~Listener() {
  close_all();
  if (spare_ >= 0) close(spare_);
}

void Listener::close_all() {
  for (const int socket : sockets_) close(socket);
  sockets_.clear();
}

bool Listener::open(const std::vector<std::uint32_t>& addresses) {
  port_ = 0;
  for (const std::uint32_t address : addresses) {
    const int one = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(address);
    at.sin_port = htons(static_cast<std::uint16_t>(port_));
    socklen_t size = sizeof at;
    auto* generic = reinterpret_cast<sockaddr*>(&at);
    if (one >= 0) sockets_.push_back(one);
    if (one < 0 || bind(one, generic, size) != 0 || listen(one, kBacklog) != 0 ||
        getsockname(one, generic, &size) != 0) {
      const int why = errno;
      close_all();
      errno = why;
      return false;
    }
    port_ = ntohs(at.sin_port);
  }
  return true;
}

std::size_t Listener::update(std::int64_t now) {
  zmq::message_t event;
  zmq::message_t address;
  while (events_.recv(event, zmq::recv_flags::dontwait).has_value()) {
    (void)events_.recv(address, zmq::recv_flags::dontwait);
    std::uint16_t kind = 0;
    std::int32_t value = 0;
    if (event.size() != sizeof kind + sizeof value) continue;
    std::memcpy(&kind, event.data<char>(), sizeof kind);
    std::memcpy(&value, event.data<char>() + sizeof kind, sizeof value);
    if (kind == ZMQ_EVENT_ACCEPTED) accepted_[value] = now;
    if (kind == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) completed_.push_back(now);
    if (kind != ZMQ_EVENT_DISCONNECTED) continue;
    // ZeroMQ does not tell which connections have completed their handshake. If there are fewer such than accepted
    // connections, this one counts as refused.
    const bool refused = accepted_.size() > completed_.size();
    if (accepted_.erase(value) == 0) continue;
    if (refused) {
      ++refused_;
    } else {
      completed_.pop_front();
    }
  }
  // Older connections have completed their handshake or are closed by ZeroMQ.
  std::erase_if(accepted_, [&](const auto& one) { return now - one.second > kHandshakeNs; });
  while (!completed_.empty() && now - completed_.front() > kHandshakeNs) completed_.pop_front();
  set_full(accepted_.size() >= completed_.size() + kHandshakes);
  if (now - checked_ >= kCheckInterval) {
    checked_ = now;
    free_descriptor();
  }
  if (refused_ == 0 || (reported_ != 0 && now - reported_ < kReportInterval)) return 0;
  reported_ = now;
  return std::exchange(refused_, 0);
}

void Listener::set_full(bool full) {
  if (full == full_) return;
  full_ = full;
  sock_filter drop{.code = BPF_RET | BPF_K, .jt = 0, .jf = 0, .k = 0};
  const sock_fprog program{.len = 1, .filter = &drop};
  for (const int socket : sockets_) {
    (void)setsockopt(socket, SOL_SOCKET, full ? SO_ATTACH_FILTER : SO_DETACH_FILTER, &program, sizeof program);
  }
}

// Without a free descriptor, a connection would stay first in the queue and ZeroMQ would try to accept it forever.
void Listener::free_descriptor() {
  for (const int socket : sockets_) {
    pollfd waits{.fd = socket, .events = POLLIN, .revents = 0};
    if (poll(&waits, 1, 0) <= 0) continue;
    const int copy = fcntl(socket, F_DUPFD_CLOEXEC, 0);
    if (copy >= 0) {
      close(copy);
      continue;
    }
    if (spare_ >= 0) close(std::exchange(spare_, -1));
    if (const int connection = accept4(socket, nullptr, nullptr, SOCK_CLOEXEC); connection >= 0) close(connection);
    spare_ = eventfd(0, EFD_CLOEXEC);
  }
}

}  // namespace pleiad

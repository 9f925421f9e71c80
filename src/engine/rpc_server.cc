#include "engine/rpc_server.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include <fmt/format.h>

#include "core/process.h"

namespace pleiad {

namespace {

constexpr std::int64_t kTick = 50'000'000;
constexpr int kAtOnce = 32;
constexpr std::size_t kConnectionsOfARank = 64;
}  // namespace

RpcTransport::Server::Server(RpcTransport& rpc)
    : rpc_(rpc),
      world_(rpc.world_),
      log_(rpc.log_),
      router_(rpc.zmq_, zmq::socket_type::router),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      secret_(JobKey::random()) {
  if (wake_ < 0) throw TransportError(fmt::format("cannot create an eventfd: {}", std::strerror(errno)));
  set_up_socket(router_);
  // Frames for a client that does not read are dropped beyond this many. A client has fewer requests in progress, and a
  // stopped client is disconnected before that many notices are sent to it.
  router_.set(zmq::sockopt::sndhwm, 1000);
  if (rpc.keys_) {
    check_.emplace(rpc.zmq_, *rpc.keys_);
    rpc.keys_->make_server(router_);
  }
}

int RpcTransport::Server::listen(const std::vector<std::uint32_t>& addresses) {
  return listener_.emplace(rpc_.zmq_, router_, addresses).port();
}

RpcTransport::Server::~Server() {
  stop();
  close(wake_);
}

void RpcTransport::Server::start() {
  for (int host = 0; host < world_.hosts(); ++host) {
    if (host == world_.here().host) continue;
    HeartbeatLink link;
    link.host = host;
    for (int r = 0; r < world_.size(); ++r) {
      if (world_.location(r).host == host) link.ranks.push_back(r);
    }
    link.next = static_cast<std::size_t>(world_.here().local);
    links_.push_back(std::move(link));
  }
  rpc_.activity_.internal_thread_started();
  const std::lock_guard leader_lock(leader_mutex_);
  threads_.emplace_back([this] { run(0); });
}

void RpcTransport::Server::stop() {
  stop_.store(true);
  notify_change();
  // A thread that has seen stop_ starts no other thread, so the list is complete once the leader has ended.
  for (std::size_t i = 0;; ++i) {
    std::thread thread;
    {
      const std::lock_guard leader_lock(leader_mutex_);
      if (i >= threads_.size()) break;
      thread = std::move(threads_[i]);
    }
    if (thread.joinable()) thread.join();
  }
}

void RpcTransport::Server::set_handler(RequestHandler* handler) {
  const std::lock_guard lock(handler_mutex_);
  handler_ = handler;
}

void RpcTransport::Server::notify_change() {
  const std::uint64_t one = 1;
  (void)!write(wake_, &one, sizeof one);
}

void RpcTransport::Server::run(int thread) {
  LeaderLock leader_lock(leader_mutex_);
  while (!stop_.load() && leader_ == thread) {
    try {
      serve(leader_lock);
      returned_.wait(leader_lock, [&] { return returning_.load() == 0; });
    } catch (const RankKilled&) {
      return;
    } catch (const std::exception& error) {
      log_problem(error.what());
    }
  }
  if (leader_ != thread) {  // another thread serves now, and closes the sockets at the end
    ended_.push_back(std::this_thread::get_id());
    return;
  }
  try {
    exchange_heartbeats(now_ns(), true);
    // Gives frames in transit a moment to leave; the shutdown does not wait longer for them.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  } catch (const std::exception& error) {
    log_.warn(fmt::format("shutdown of the service for other hosts: {}", error.what()));
  }
  links_.clear();
  router_.close();
  listener_.reset();
  check_.reset();
}

// A persistent problem recurs in every turn; it is logged again only after a while.
void RpcTransport::Server::log_problem(const std::string& problem) {
  constexpr std::int64_t kAgain = 10'000'000'000;
  const std::int64_t now = now_ns();
  if (problem == problem_ && now - problem_logged_ < kAgain) return;
  problem_ = problem;
  problem_logged_ = now;
  log_.error(fmt::format("the service for other hosts: {}", problem));
}

bool RpcTransport::Server::delegate_leadership() {
  constexpr std::size_t kMaxThreads = 16;
  if (stop_.load()) return false;
  std::erase_if(threads_, [&](std::thread& thread) {
    const bool ended = std::erase(ended_, thread.get_id()) > 0;
    if (ended) thread.join();
    return ended;
  });
  if (threads_.size() >= kMaxThreads) return false;
  const int next = ++leader_;
  rpc_.activity_.internal_thread_started();
  threads_.emplace_back([this, next] { run(next); });
  return true;
}

void RpcTransport::Server::regain_leadership(LeaderLock& leader_lock) {
  returning_.fetch_add(1);
  notify_change();
  leader_lock.lock();
}

void RpcTransport::Server::release_leadership() {
  returning_.fetch_sub(1);
  returned_.notify_all();
}

void RpcTransport::Server::serve(LeaderLock& leader_lock) {
  bool deferred = false;
  {
    const std::shared_lock lock(handler_mutex_);
    deferred = handler_ != nullptr && handler_->unanswered();
  }
  std::vector<zmq::pollitem_t> polled = {{.socket = router_.handle(), .fd = 0, .events = ZMQ_POLLIN, .revents = 0},
                                         {.socket = nullptr, .fd = wake_, .events = ZMQ_POLLIN, .revents = 0}};
  polled.push_back({.socket = listener_->events().handle(), .fd = 0, .events = ZMQ_POLLIN, .revents = 0});
  if (check_) polled.push_back({.socket = check_->socket().handle(), .fd = 0, .events = ZMQ_POLLIN, .revents = 0});
  for (HeartbeatLink& link : links_) {
    if (link.connection == nullptr) continue;
    polled.push_back({.socket = link.connection->socket().handle(), .fd = 0, .events = ZMQ_POLLIN, .revents = 0});
  }
  (void)await(polled, deferred ? kTick : kHeartbeatInterval / 2);
  detect_pause(now_ns());
  bool told = false;
  std::uint64_t word = 0;
  if ((polled[1].revents & ZMQ_POLLIN) != 0) told = read(wake_, &word, sizeof word) == sizeof word;
  if (const std::size_t refused = listener_->update(now_ns()); refused > 0) {
    log_.warn(
        fmt::format("{} connections ended during their handshake: peers without the key of the job, or ranks whose "
                    "connection broke",
                    refused));
  }
  if (check_) check_->answer();
  const int leader = leader_;
  for (int i = 0; i < kAtOnce && handle_one(leader_lock); ++i) {
    if (leader_ != leader) return;  // another thread continues
  }
  exchange_heartbeats(now_ns(), told);
  if (deferred) {
    const std::shared_lock lock(handler_mutex_);
    if (handler_ != nullptr) handler_->tick();
  }
}

bool RpcTransport::Server::handle_one(LeaderLock& leader_lock) {
  zmq::message_t connection;
  zmq::message_t message;
  if (!router_.recv(connection, zmq::recv_flags::dontwait).has_value()) return false;
  if (connection.more() && receive_frame(router_, message, kMaxBytes))
    handle_frame(leader_lock, connection.to_string(), message);
  return true;
}

zmq::message_t RpcTransport::Server::reply_to(const FrameHead& request, FrameKind kind, std::size_t bytes) const {
  FrameHead head = request;
  head.kind = kind;
  head.rank = world_.rank();
  head.status = 0;
  return make_frame(head, bytes, &rpc_.frames_);
}

void RpcTransport::Server::send(const std::string& connection, zmq::message_t& frame) {
  if (!listener_) return;  // the service has ended while one of its threads waited for a lock
  // A client that has disconnected is not an error: the router drops its frames.
  try {
    (void)router_.send(zmq::buffer(connection), zmq::send_flags::sndmore | zmq::send_flags::dontwait);
    (void)send_frame(router_, frame);
  } catch (const zmq::error_t& error) {
    if (error.num() != EHOSTUNREACH) throw;
  }
}

void RpcTransport::Server::handle_frame(LeaderLock& leader_lock, const std::string& connection,
                                        zmq::message_t& message) {
  const auto frame = parse_frame({message.data<char>(), message.size()});
  if (!frame) return;
  const FrameHead& head = frame->head;
  if (head.kind == FrameKind::hello) return handle_hello(connection, *frame);
  if (head.kind == FrameKind::response) return handle_response(connection, *frame);
  const auto known = authenticated_.find(connection);
  if (known == authenticated_.end() || known->second != head.rank) {
    zmq::message_t refusal = reply_to(head, FrameKind::unauthenticated, 0);
    return send(connection, refusal);
  }
  rpc_.heard_[static_cast<std::size_t>(world_.location(head.rank).host)].store(now_ns());
  if (head.kind == FrameKind::request) return handle_request(leader_lock, connection, *frame);
  if (head.kind == FrameKind::ping) {
    zmq::message_t pong = reply_to(head, FrameKind::pong, 0);
    return send(connection, pong);
  }
  if (head.kind == FrameKind::heartbeat) {
    read_heartbeat(head.rank, frame->body);
    const std::vector<char> mine = make_heartbeat();
    zmq::message_t back = reply_to(head, FrameKind::heartbeat_reply, mine.size());
    std::memcpy(body_of(back).data(), mine.data(), mine.size());
    send(connection, back);
  }
}

// The nonce is computed from the connection and the client's nonce, so the server keeps no state for peers that only
// send a hello.
Nonce RpcTransport::Server::nonce_for(const std::string& connection, const Nonce& client) const {
  Nonce name{};
  std::memcpy(name.data(), connection.data(), std::min(connection.size(), name.size()));
  const AuthTag hash = make_auth_tag(secret_, "nonce", client, name, 0, 0);
  Nonce nonce;
  std::memcpy(nonce.data(), hash.data(), nonce.size());
  return nonce;
}

void RpcTransport::Server::handle_hello(const std::string& connection, const Frame& frame) {
  Nonce client;
  std::span<const char> body = frame.body;
  if (!take(body, client) || !body.empty()) return;
  const Nonce mine = nonce_for(connection, client);
  const AuthTag tag = make_auth_tag(rpc_.key_, "server", client, mine, frame.head.rank, world_.rank());
  zmq::message_t challenge = reply_to(frame.head, FrameKind::challenge, client.size() + mine.size() + tag.size());
  char* to = body_of(challenge).data();
  std::memcpy(to, client.data(), client.size());
  std::memcpy(to + client.size(), mine.data(), mine.size());
  std::memcpy(to + client.size() + mine.size(), tag.data(), tag.size());
  send(connection, challenge);
}

void RpcTransport::Server::handle_response(const std::string& connection, const Frame& frame) {
  Nonce client;
  AuthTag tag;
  std::span<const char> body = frame.body;
  const std::int32_t rank = frame.head.rank;
  if (!take(body, client) || !take(body, tag) || !body.empty() || rank < 0 || rank >= world_.size()) return;
  const Nonce mine = nonce_for(connection, client);
  if (!equal(tag, make_auth_tag(rpc_.key_, "client", client, mine, rank, world_.rank()))) {
    return listener_->count_refusal();
  }
  if (authenticated_.emplace(connection, rank).second) {
    auto& connections = connections_of_rank_[rank];
    connections.push_back(connection);
    if (connections.size() > kConnectionsOfARank) {
      authenticated_.erase(connections.front());
      connections.pop_front();
    }
  }
  zmq::message_t accepted = reply_to(frame.head, FrameKind::accepted, 0);
  send(connection, accepted);
}

}  // namespace pleiad

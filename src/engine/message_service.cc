#include "engine/message_service.h"

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

Messenger::Service::Service(Messenger& messenger)
    : messenger_(messenger),
      engine_(messenger.engine_),
      router_(messenger.context_, zmq::socket_type::router),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      secret_(JobKey::random()) {
  if (wake_ < 0) throw TransportError(fmt::format("no eventfd: {}", std::strerror(errno)));
  set_up_socket(router_);
  // Frames for a client that does not read are dropped beyond this many. A client has fewer requests in progress, and a
  // stopped client is disconnected before that many notes are sent to it.
  router_.set(zmq::sockopt::sndhwm, 1000);
  if (messenger.keys_) {
    check_.emplace(messenger.context_, *messenger.keys_);
    messenger.keys_->make_server(router_);
  }
}

int Messenger::Service::listen(const std::vector<std::uint32_t>& addresses) {
  return listener_.emplace(messenger_.context_, router_, addresses).port();
}

Messenger::Service::~Service() {
  stop();
  close(wake_);
}

void Messenger::Service::start() {
  for (int host = 0; host < engine_.hosts(); ++host) {
    if (host == engine_.place(engine_.rank()).host) continue;
    Watch watch;
    watch.host = host;
    for (int r = 0; r < engine_.size(); ++r) {
      if (engine_.place(r).host == host) watch.ranks.push_back(r);
    }
    watch.next = static_cast<std::size_t>(engine_.place(engine_.rank()).local);
    watches_.push_back(std::move(watch));
  }
  engine_.own_thread_started();
  const std::lock_guard duty(duty_);
  threads_.emplace_back([this] { run(0); });
}

void Messenger::Service::stop() {
  stop_.store(true);
  news();
  // A thread that has seen stop_ starts no other thread, so the list is complete once the leader has ended.
  for (std::size_t i = 0;; ++i) {
    std::thread thread;
    {
      const std::lock_guard duty(duty_);
      if (i >= threads_.size()) break;
      thread = std::move(threads_[i]);
    }
    if (thread.joinable()) thread.join();
  }
}

void Messenger::Service::set_handler(RequestHandler* handler) {
  const std::lock_guard lock(handler_mutex_);
  handler_ = handler;
}

void Messenger::Service::news() {
  const std::uint64_t one = 1;
  (void)!write(wake_, &one, sizeof one);
}

void Messenger::Service::run(int thread) {
  Duty duty(duty_);
  while (!stop_.load() && leader_ == thread) {
    try {
      serve(duty);
      returned_.wait(duty, [&] { return returning_.load() == 0; });
    } catch (const RankKilled&) {
      return;
    } catch (const std::exception& error) {
      tell(error.what());
    }
  }
  if (leader_ != thread) {  // another thread serves now, and closes the sockets at the end
    ended_.push_back(std::this_thread::get_id());
    return;
  }
  try {
    keep_watch(now_ns(), true);
    // Gives frames in transit a moment to leave; the shutdown does not wait longer for them.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  } catch (const std::exception& error) {
    engine_.log().warn(fmt::format("the service for other hosts, at its end: {}", error.what()));
  }
  watches_.clear();
  router_.close();
  listener_.reset();
  check_.reset();
}

// A persistent problem recurs in every turn; it is logged again only after a while.
void Messenger::Service::tell(const std::string& problem) {
  constexpr std::int64_t kAgain = 10'000'000'000;
  const std::int64_t now = now_ns();
  if (problem == problem_ && now - problem_told_ < kAgain) return;
  problem_ = problem;
  problem_told_ = now;
  engine_.log().error(fmt::format("the service for other hosts: {}", problem));
}

bool Messenger::Service::hand_over_duty() {
  constexpr std::size_t kMostThreads = 16;
  if (stop_.load()) return false;
  std::erase_if(threads_, [&](std::thread& thread) {
    const bool ended = std::erase(ended_, thread.get_id()) > 0;
    if (ended) thread.join();
    return ended;
  });
  if (threads_.size() >= kMostThreads) return false;
  const int next = ++leader_;
  engine_.own_thread_started();
  threads_.emplace_back([this, next] { run(next); });
  return true;
}

void Messenger::Service::take_duty_back(Duty& duty) {
  returning_.fetch_add(1);
  news();
  duty.lock();
}

void Messenger::Service::leave_duty() {
  returning_.fetch_sub(1);
  returned_.notify_all();
}

void Messenger::Service::serve(Duty& duty) {
  bool waits = false;
  {
    const std::shared_lock lock(handler_mutex_);
    waits = handler_ != nullptr && handler_->unanswered();
  }
  std::vector<zmq::pollitem_t> polled = {{.socket = router_.handle(), .fd = 0, .events = ZMQ_POLLIN, .revents = 0},
                                         {.socket = nullptr, .fd = wake_, .events = ZMQ_POLLIN, .revents = 0}};
  polled.push_back({.socket = listener_->events().handle(), .fd = 0, .events = ZMQ_POLLIN, .revents = 0});
  if (check_) polled.push_back({.socket = check_->socket().handle(), .fd = 0, .events = ZMQ_POLLIN, .revents = 0});
  for (Watch& watch : watches_) {
    if (watch.channel == nullptr) continue;
    polled.push_back({.socket = watch.channel->socket().handle(), .fd = 0, .events = ZMQ_POLLIN, .revents = 0});
  }
  (void)await(polled, waits ? kTick : kBeat / 2);
  note_turn(now_ns());
  bool told = false;
  std::uint64_t word = 0;
  if ((polled[1].revents & ZMQ_POLLIN) != 0) told = read(wake_, &word, sizeof word) == sizeof word;
  if (const std::size_t refused = listener_->look(now_ns()); refused > 0) {
    engine_.log().warn(
        fmt::format("{} connections ended in their handshake: strangers, or ranks whose connection broke", refused));
  }
  if (check_) check_->answer();
  const int leader = leader_;
  for (int i = 0; i < kAtOnce && take_one(duty); ++i) {
    if (leader_ != leader) return;  // another thread continues
  }
  keep_watch(now_ns(), told);
  if (waits) {
    const std::shared_lock lock(handler_mutex_);
    if (handler_ != nullptr) handler_->tick();
  }
}

bool Messenger::Service::take_one(Duty& duty) {
  zmq::message_t connection;
  zmq::message_t message;
  if (!router_.recv(connection, zmq::recv_flags::dontwait).has_value()) return false;
  if (connection.more() && receive_frame(router_, message, kMostBytes)) hear(duty, connection.to_string(), message);
  return true;
}

zmq::message_t Messenger::Service::reply_to(const FrameHead& request, FrameKind kind, std::size_t bytes) const {
  FrameHead head = request;
  head.kind = kind;
  head.rank = engine_.rank();
  head.status = 0;
  return make_frame(head, bytes, &messenger_.frames_);
}

void Messenger::Service::send(const std::string& connection, zmq::message_t& frame) {
  if (!listener_) return;  // the service has ended while one of its threads waited for a lock
  // A client that has disconnected is not an error: the router drops its frames.
  try {
    (void)router_.send(zmq::buffer(connection), zmq::send_flags::sndmore | zmq::send_flags::dontwait);
    (void)send_frame(router_, frame);
  } catch (const zmq::error_t& error) {
    if (error.num() != EHOSTUNREACH) throw;
  }
}

void Messenger::Service::hear(Duty& duty, const std::string& connection, zmq::message_t& message) {
  const auto frame = parse_frame({message.data<char>(), message.size()});
  if (!frame) return;
  const FrameHead& head = frame->head;
  if (head.kind == FrameKind::hello) return greet(connection, *frame);
  if (head.kind == FrameKind::proof) return prove(connection, *frame);
  const auto known = known_.find(connection);
  if (known == known_.end() || known->second != head.rank) {
    zmq::message_t refusal = reply_to(head, FrameKind::stranger, 0);
    return send(connection, refusal);
  }
  messenger_.heard_[static_cast<std::size_t>(engine_.place(head.rank).host)].store(now_ns());
  if (head.kind == FrameKind::request) return carry_out(duty, connection, *frame);
  if (head.kind == FrameKind::ping) {
    zmq::message_t pong = reply_to(head, FrameKind::pong, 0);
    return send(connection, pong);
  }
  if (head.kind == FrameKind::beat) {
    read_beat(head.rank, frame->body);
    const std::vector<char> mine = beat();
    zmq::message_t back = reply_to(head, FrameKind::beat_back, mine.size());
    std::memcpy(body_of(back).data(), mine.data(), mine.size());
    send(connection, back);
  }
}

// The nonce is computed from the connection and the client's nonce, so the server keeps no state for peers that only
// send a hello.
Nonce Messenger::Service::nonce_for(const std::string& connection, const Nonce& client) const {
  Nonce name{};
  std::memcpy(name.data(), connection.data(), std::min(connection.size(), name.size()));
  const Proof hash = make_proof(secret_, "nonce", client, name, 0, 0);
  Nonce nonce;
  std::memcpy(nonce.data(), hash.data(), nonce.size());
  return nonce;
}

void Messenger::Service::greet(const std::string& connection, const Frame& frame) {
  Nonce client;
  std::span<const char> body = frame.body;
  if (!take(body, client) || !body.empty()) return;
  const Nonce mine = nonce_for(connection, client);
  const Proof proof = make_proof(messenger_.key_, "server", client, mine, frame.head.rank, engine_.rank());
  zmq::message_t challenge = reply_to(frame.head, FrameKind::challenge, client.size() + mine.size() + proof.size());
  char* to = body_of(challenge).data();
  std::memcpy(to, client.data(), client.size());
  std::memcpy(to + client.size(), mine.data(), mine.size());
  std::memcpy(to + client.size() + mine.size(), proof.data(), proof.size());
  send(connection, challenge);
}

void Messenger::Service::prove(const std::string& connection, const Frame& frame) {
  Nonce client;
  Proof proof;
  std::span<const char> body = frame.body;
  const std::int32_t rank = frame.head.rank;
  if (!take(body, client) || !take(body, proof) || !body.empty() || rank < 0 || rank >= engine_.size()) return;
  const Nonce mine = nonce_for(connection, client);
  if (!same(proof, make_proof(messenger_.key_, "client", client, mine, rank, engine_.rank()))) {
    return listener_->count_refusal();
  }
  if (known_.emplace(connection, rank).second) {
    auto& connections = of_rank_[rank];
    connections.push_back(connection);
    if (connections.size() > kConnectionsOfARank) {
      known_.erase(connections.front());
      connections.pop_front();
    }
  }
  zmq::message_t welcome = reply_to(frame.head, FrameKind::welcome, 0);
  send(connection, welcome);
}

}  // namespace pleiad

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

constexpr std::int64_t kBeat = 500'000'000;
constexpr std::int64_t kTryAnother = 2'000'000'000;
constexpr std::int64_t kTick = 50'000'000;
constexpr int kAtOnce = 32;
constexpr std::size_t kConnectionsOfARank = 64;
constexpr std::size_t kMostClients = 8192;

struct BeatHead {
  std::uint32_t ranks = 0;
  std::uint32_t failure_bytes = 0;
};
struct BeatRank {
  std::int32_t rank = 0;
  Life life = Life::alive;
};

template <class T>
bool take(std::span<const char>& bytes, T& value) {
  if (bytes.size() < sizeof value) return false;
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes = bytes.subspan(sizeof value);
  return true;
}

}  // namespace

Messenger::Service::Service(Messenger& messenger, bool loopback)
    : messenger_(messenger),
      engine_(messenger.engine_),
      router_(messenger.context_, zmq::socket_type::router),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      secret_(JobKey::random()) {
  if (wake_ < 0) throw TransportError(fmt::format("no eventfd: {}", std::strerror(errno)));
  set_up_socket(router_);
  // Replies are never dropped: how many there can be is bounded by what the clients may have under way.
  router_.set(zmq::sockopt::sndhwm, 0);
  router_.set(zmq::sockopt::backlog, 1024);
  router_.set(zmq::sockopt::maxmsgsize, kMostBytes);
  if (messenger.keys_) {
    check_.emplace(messenger.context_, *messenger.keys_);
    messenger.keys_->make_server(router_);
  }
  // If the user has named an interface, the router listens on that one alone.
  const bool named = !loopback && !engine_.options().interface.empty();
  const std::string at = loopback ? "127.0.0.1" : named ? first_address(messenger.own_) : "0.0.0.0";
  try {
    router_.bind(fmt::format("tcp://{}:*", at));
  } catch (const zmq::error_t& error) {
    throw TransportError(fmt::format("rank {} cannot listen for other hosts: {}", engine_.rank(), error.what()));
  }
  const std::string bound = router_.get(zmq::sockopt::last_endpoint);
  messenger_.own_.port = std::stoi(bound.substr(bound.rfind(':') + 1));
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
  thread_ = std::thread([this] { run(); });
}

void Messenger::Service::stop() {
  stop_.store(true);
  news();
  if (thread_.joinable()) thread_.join();
}

void Messenger::Service::set_handler(RequestHandler* handler) {
  const std::lock_guard lock(handler_mutex_);
  handler_ = handler;
}

void Messenger::Service::news() {
  const std::uint64_t one = 1;
  (void)!write(wake_, &one, sizeof one);
}

void Messenger::Service::run() {
  while (!stop_.load()) {
    try {
      serve();
    } catch (const RankKilled&) {
      return;
    } catch (const std::exception& error) {
      engine_.log().error(fmt::format("the service for other hosts: {}", error.what()));
    }
  }
  try {
    keep_watch(now_ns(), true);
    // Words that are on their way need a moment; nobody waits for them longer.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  } catch (const std::exception& error) {
    engine_.log().warn(fmt::format("the service for other hosts, at its end: {}", error.what()));
  }
  watches_.clear();
  router_.close();
  check_.reset();
}

void Messenger::Service::serve() {
  bool waits = false;
  {
    const std::lock_guard lock(handler_mutex_);
    waits = handler_ != nullptr && handler_->unanswered();
  }
  std::vector<zmq::pollitem_t> polled = {{.socket = router_.handle(), .fd = 0, .events = ZMQ_POLLIN, .revents = 0},
                                         {.socket = nullptr, .fd = wake_, .events = ZMQ_POLLIN, .revents = 0}};
  if (check_) polled.push_back({.socket = check_->socket().handle(), .fd = 0, .events = ZMQ_POLLIN, .revents = 0});
  for (Watch& watch : watches_) {
    if (watch.channel == nullptr) continue;
    polled.push_back({.socket = watch.channel->socket().handle(), .fd = 0, .events = ZMQ_POLLIN, .revents = 0});
  }
  (void)await(polled, waits ? kTick : kBeat / 2);
  bool told = false;
  std::uint64_t word = 0;
  if ((polled[1].revents & ZMQ_POLLIN) != 0) told = read(wake_, &word, sizeof word) == sizeof word;
  if (check_) check_->answer();
  for (int i = 0; i < kAtOnce && take_one(); ++i) {
  }
  keep_watch(now_ns(), told);
  if (waits) {
    const std::lock_guard lock(handler_mutex_);
    if (handler_ != nullptr) handler_->tick();
  }
}

bool Messenger::Service::take_one() {
  zmq::message_t connection;
  zmq::message_t message;
  if (!router_.recv(connection, zmq::recv_flags::dontwait).has_value()) return false;
  if (!connection.more()) return true;
  (void)router_.recv(message, zmq::recv_flags::dontwait);
  const bool one_part = !message.more();
  for (zmq::message_t rest; message.more() && router_.recv(rest, zmq::recv_flags::dontwait).has_value();) {
    if (!rest.more()) break;
  }
  if (one_part) hear(connection.to_string(), message);
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
  // A client that is gone is no error: the router drops what is for it.
  try {
    (void)router_.send(zmq::buffer(connection), zmq::send_flags::sndmore | zmq::send_flags::dontwait);
    (void)router_.send(frame, zmq::send_flags::dontwait);
  } catch (const zmq::error_t& error) {
    if (error.num() != EHOSTUNREACH) throw;
  }
}

void Messenger::Service::hear(const std::string& connection, zmq::message_t& message) {
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
  if (head.kind == FrameKind::request) return carry_out(connection, *frame);
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

// Made from the connection and the client's nonce, so that strangers who only say hello leave nothing behind.
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
    engine_.log().warn("a stranger without the job's key was refused");
    return;
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

void Messenger::Service::carry_out(const std::string& connection, const Frame& frame) {
  const FrameHead& head = frame.head;
  const ClientName name{head.rank, head.channel};
  auto found = clients_.find(name);
  if (found == clients_.end()) {
    found = clients_.emplace(name, Client{}).first;
    client_order_.push_back(name);
    if (client_order_.size() > kMostClients) {
      clients_.erase(client_order_.front());
      client_order_.pop_front();
    }
  }
  Client& client = found->second;
  // So old that the client has long had its answer: somebody plays old frames again.
  if (head.sequence == 0 || head.sequence + Client::kRemembered <= client.highest) return;
  client.highest = std::max(client.highest, head.sequence);
  Client::Entry& entry = client.entry(head.sequence);
  if (entry.sequence != head.sequence) entry = {.sequence = head.sequence, .state = {}, .problem = {}};

  const ReturnAddress back{.connection = connection, .head = head};
  if (entry.state == Client::State::done && entry.problem) return answer(back, &*entry.problem);
  Request request{.from = head.rank,
                  .operation = head.operation,
                  .repeated = entry.state != Client::State::unknown,
                  .body = frame.body,
                  .back = back};
  if (reinterpret_cast<std::uintptr_t>(frame.body.data()) % sizeof(std::uint64_t) != 0) {
    // Small messages lie anywhere in a buffer; numbers must not.
    aligned_.resize(frame.body.size() / sizeof(std::uint64_t) + 1);
    if (!frame.body.empty()) std::memcpy(aligned_.data(), frame.body.data(), frame.body.size());
    request.body = {reinterpret_cast<const char*>(aligned_.data()), frame.body.size()};
  }
  entry.state = Client::State::waits;
  zmq::message_t reply;
  bool has_reply = false;
  const auto room = [&](std::size_t bytes) {
    reply = reply_to(head, FrameKind::reply, bytes);
    has_reply = true;
    return body_of(reply);
  };
  try {
    const std::lock_guard lock(handler_mutex_);
    if (handler_ == nullptr)
      throw TransportError(fmt::format("{} has ended its session", engine_.describe(engine_.rank())));
    if (!handler_->handle(request, room)) return;
  } catch (const RankKilled&) {
    throw;
  } catch (...) {
    const Problem problem = Problem::current();
    return answer(back, &problem);
  }
  entry.state = Client::State::done;
  if (!has_reply) reply = reply_to(head, FrameKind::reply, 0);
  send(connection, reply);
}

void Messenger::Service::answer(const ReturnAddress& back, const Problem* problem, std::span<const char> body) {
  if (const auto client = clients_.find({back.head.rank, back.head.channel}); client != clients_.end()) {
    Client::Entry& entry = client->second.entry(back.head.sequence);
    if (entry.sequence == back.head.sequence) {
      entry.state = Client::State::done;
      if (problem != nullptr && !entry.problem) entry.problem = *problem;
    }
  }
  if (problem != nullptr) body = problem->text;
  zmq::message_t reply = reply_to(back.head, FrameKind::reply, body.size());
  if (!body.empty()) std::memcpy(body_of(reply).data(), body.data(), body.size());
  if (problem != nullptr) {
    const auto status = static_cast<std::uint16_t>(problem->kind);
    std::memcpy(reply.data<char>() + offsetof(FrameHead, status), &status, sizeof status);
  }
  send(back.connection, reply);
}

void Messenger::Service::note(const ReturnAddress& back, std::span<const std::int32_t> ranks) {
  zmq::message_t frame = reply_to(back.head, FrameKind::note, ranks.size_bytes());
  if (!ranks.empty()) std::memcpy(body_of(frame).data(), ranks.data(), ranks.size_bytes());
  send(back.connection, frame);
}

std::vector<char> Messenger::Service::beat() const {
  const std::string failure = engine_.failure();
  const BeatHead head{.ranks = static_cast<std::uint32_t>(engine_.local_ranks()),
                      .failure_bytes = static_cast<std::uint32_t>(failure.size())};
  std::vector<char> bytes(sizeof head + head.ranks * sizeof(BeatRank) + failure.size());
  std::memcpy(bytes.data(), &head, sizeof head);
  for (int local = 0; local < engine_.local_ranks(); ++local) {
    const int rank = engine_.world_rank(local);
    const BeatRank one{.rank = rank, .life = engine_.life(rank)};
    std::memcpy(bytes.data() + sizeof head + static_cast<std::size_t>(local) * sizeof one, &one, sizeof one);
  }
  std::memcpy(bytes.data() + bytes.size() - failure.size(), failure.data(), failure.size());
  return bytes;
}

void Messenger::Service::read_beat(int from, std::span<const char> body) {
  BeatHead head;
  if (!take(body, head) || head.ranks > static_cast<std::uint32_t>(engine_.size())) return;
  const int host = engine_.place(from).host;
  messenger_.heard_[static_cast<std::size_t>(host)].store(now_ns());
  bool changed = false;
  for (std::uint32_t i = 0; i < head.ranks; ++i) {
    BeatRank one;
    if (!take(body, one)) return;
    if (one.rank < 0 || one.rank >= engine_.size() || engine_.place(one.rank).host != host) continue;
    if (one.life != Life::finished && one.life != Life::dead) continue;
    auto& life = messenger_.lives_[static_cast<std::size_t>(one.rank)];
    Life alive = Life::alive;
    if (life.compare_exchange_strong(alive, one.life)) {
      changed = true;
      if (one.life == Life::dead) engine_.log().error(fmt::format("{} died", engine_.describe(one.rank)));
    }
  }
  if (head.failure_bytes > 0 && head.failure_bytes == body.size()) {
    (void)engine_.fail({body.data(), body.size()});
    changed = true;
  }
  if (changed) engine_.wake_all();
}

// Asks one process of every other host how they are, twice a second, and at once where this host has news.
void Messenger::Service::keep_watch(std::int64_t now, bool at_once) {
  for (Watch& watch : watches_) {
    if (watch.channel != nullptr) {
      while (auto incoming = watch.channel->receive()) {
        watch.heard = now;
        if (incoming->frame.head.kind == FrameKind::beat_back) read_beat(watch.channel->to(), incoming->frame.body);
      }
      if (now - std::max(watch.heard, watch.began) >= kTryAnother) watch.channel = nullptr;
    }
    if (watch.channel == nullptr) {
      const int to = watch.ranks[watch.next++ % watch.ranks.size()];
      watch.channel = messenger_.new_channel(to);
      watch.began = now;
      watch.sent = 0;
    }
    watch.channel->greet(now);
    if (!watch.channel->welcomed() || (!at_once && now - watch.sent < kBeat)) continue;
    watch.sent = now;
    const std::vector<char> mine = beat();
    zmq::message_t frame = make_frame(watch.channel->head(FrameKind::beat), mine.size());
    std::memcpy(body_of(frame).data(), mine.data(), mine.size());
    (void)watch.channel->send(frame);
  }
}

}  // namespace pleiad

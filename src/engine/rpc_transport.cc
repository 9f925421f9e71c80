#include "engine/rpc_transport.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <deque>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "core/process.h"
#include "engine/engine.h"
#include "engine/rpc_server.h"

namespace pleiad {

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kAvoidFor = 10 * kSecond;  // how long a silent rank gets no requests
constexpr double kSilentAfter = 3;  // seconds of silence after which another rank of the host gets the requests

// The values of the option `transport_security`.
enum class Security : std::uint8_t { encrypt, off, force_off };

Security parse_security(std::string_view text) {
  static constexpr std::array<std::string_view, 3> kNames = {"encrypt", "off", "force-off"};
  return static_cast<Security>(std::ranges::find(kNames, text) - kNames.begin());
}

double seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

}  // namespace

// The part of a batch that uses one connection.
class RpcTransport::PeerExchange {
 public:
  PeerExchange(RpcTransport& rpc, const RequestBatch& exchange, int host)
      : rpc_(rpc), exchange_(exchange), host_(host) {}

  void add(std::size_t item) { unsent_.push_back(item); }
  void connect(int to) {
    connection_ = rpc_.acquire_connection(to);
    epoch_ = connection_->epoch();
    connected_ = pinged_ = checked_ = now_ns();
    if (heard_ == 0) heard_ = connected_;
  }
  [[nodiscard]] int host() const { return host_; }
  [[nodiscard]] int to() const { return connection_->to(); }
  [[nodiscard]] zmq::socket_t& socket() { return connection_->socket(); }
  [[nodiscard]] bool done() const { return open_.empty() && (unsent_.empty() || problem_.has_value()); }
  [[nodiscard]] const std::optional<Problem>& problem() const { return problem_; }
  [[nodiscard]] const std::vector<int>& waits_for() const { return waits_for_; }
  [[nodiscard]] std::unique_ptr<RpcConnection> end() { return std::move(connection_); }

  void send() {
    connection_->send_hello(now_ns());
    if (!connection_->authenticated()) return;
    if (connection_->epoch() != epoch_) {  // a new connection: requests in progress may be lost
      epoch_ = connection_->epoch();
      std::vector<std::uint64_t> again;
      for (const auto& [sequence, item] : open_) again.push_back(sequence);
      for (const std::uint64_t sequence : again) send_item(sequence, open_[sequence]);
    }
    while (!unsent_.empty() && open_.size() < kWindow && !problem_) {
      const std::uint64_t sequence = connection_->next_sequence();
      const std::size_t item = unsent_.front();
      unsent_.pop_front();
      open_[sequence] = item;
      send_item(sequence, item);
    }
  }

  void receive() {
    while (auto incoming = connection_->receive()) {
      heard_ = now_ns();
      const FrameHead& head = incoming->frame.head;
      const auto found = open_.find(head.sequence);
      if (found == open_.end() || head.kind == FrameKind::pong) continue;
      if (head.kind == FrameKind::unauthenticated) {
        send_item(found->first, found->second);
      } else if (head.kind == FrameKind::waiting) {
        read_waiting_ranks(incoming->frame.body);
      } else if (head.kind == FrameKind::reply) {
        const std::size_t item = found->second;
        open_.erase(found);
        if (head.status == 0) {
          exchange_.take(item, incoming->frame.body);
        } else if (!problem_) {
          problem_ = Problem{.kind = static_cast<ErrorKind>(head.status),
                             .text = {incoming->frame.body.begin(), incoming->frame.body.end()}};
        }
      }
    }
  }

  // Checks for silence and death. Called after every short sleep.
  void check() {
    if (done()) return;
    const std::int64_t now = now_ns();
    // If this check is late, the process was stopped or had no core, and may not have read what arrived meanwhile.
    if (now - std::exchange(checked_, now) >= kPauseThreshold) heard_ = pinged_ = now;
    if (rpc_.members_.liveness(to()) == Liveness::dead) return change_rank("died");
    const double host_timeout = rpc_.options_.host_timeout;
    const double silent = seconds(now - heard_);
    if (silent >= host_timeout) {
      throw SilenceError(
          fmt::format("[rank {}] {}: {} at {} has not answered for {:.1f} s; check that the host and the "
                      "network are up{}",
                      rpc_.world_.rank(), name_of(exchange_.call), rpc_.members_.describe(to()),
                      connection_->endpoint(), silent, in_part()));
    }
    if (!exchange_.fixed_rank &&
        seconds(now - std::max(heard_, connected_)) >= std::min(kSilentAfter, host_timeout / 4) && in_part().empty()) {
      // The rank may be suspended (SIGSTOP) while the other ranks of its host run.
      rpc_.avoided_[static_cast<std::size_t>(to())].store(now + kAvoidFor);
      const int next = rpc_.serving_rank(host_);
      if (next != to() && !rpc_.is_avoided(next)) return change_rank("is silent");
    }
    if (now - std::max(heard_, pinged_) >= kSecond && connection_->authenticated()) {
      pinged_ = now;
      zmq::message_t ping = make_frame(connection_->head(FrameKind::ping), 0);
      (void)connection_->send(ping);
    }
  }

 private:
  void send_item(std::uint64_t sequence, std::size_t item) {
    const OutgoingRequest part = exchange_.request(item);
    FrameHead head = connection_->head(FrameKind::request);
    head.sequence = sequence;
    head.operation = part.operation;
    head.idempotent = part.idempotent ? 1 : 0;
    zmq::message_t frame = make_frame(head, part.bytes, &rpc_.frames_);
    exchange_.fill(item, body_of(frame));
    if (!connection_->send(frame)) throw InternalError("a connection's queue is full although its window is not");
  }

  void read_waiting_ranks(std::span<const char> body) {
    waits_for_.clear();
    for (; body.size() >= sizeof(std::int32_t); body = body.subspan(sizeof(std::int32_t))) {
      std::int32_t rank = 0;
      std::memcpy(&rank, body.data(), sizeof rank);
      if (rank >= 0 && rank < rpc_.world_.size()) waits_for_.push_back(rank);
    }
  }

  [[nodiscard]] std::string in_part() const {
    const bool harmless =
        std::ranges::all_of(open_, [&](const auto& o) { return exchange_.request(o.second).idempotent; });
    return harmless ? "" : ". The requests may have taken effect in part";
  }

  // Another rank of the host has the same shards, but does not know which requests this one has executed.
  void change_rank(std::string_view why) {
    const int next = rpc_.serving_rank(host_);
    const std::string part = in_part();
    if (exchange_.fixed_rank || !part.empty() || next < 0 || rpc_.members_.liveness(next) == Liveness::dead) {
      throw TransportError(fmt::format("[rank {}] {}: {} {}{}", rpc_.world_.rank(), name_of(exchange_.call),
                                       rpc_.members_.describe(to()), why, part));
    }
    for (const auto& [sequence, item] : open_) unsent_.push_back(item);
    open_.clear();
    connect(next);
  }

  RpcTransport& rpc_;
  const RequestBatch& exchange_;
  int host_;
  std::unique_ptr<RpcConnection> connection_;
  std::deque<std::size_t> unsent_;
  std::map<std::uint64_t, std::size_t> open_;
  std::uint32_t epoch_ = 0;
  std::int64_t heard_ = 0;  ///< the last frame from any rank of the host
  std::int64_t connected_ = 0;
  std::int64_t pinged_ = 0;
  std::int64_t checked_ = 0;
  std::vector<int> waits_for_;
  std::optional<Problem> problem_;
};

RpcTransport::RpcTransport(Engine& engine, const JobKey& key, bool loopback)
    : world_(engine.world()),
      options_(engine.options()),
      log_(engine.log()),
      members_(engine.members()),
      failure_(engine.order_failure()),
      activity_(engine.activity()),
      waiter_(engine.waiter()),
      key_(key),
      own_(own_addresses(loopback ? "127.0.0.1" : options_.interface)),
      zmq_(1),
      liveness_(static_cast<std::size_t>(world_.size())),
      heard_(static_cast<std::size_t>(world_.hosts())),
      avoided_(static_cast<std::size_t>(world_.size())) {
  const Security security = parse_security(options_.transport_security);
  if (security == Security::encrypt) keys_.emplace(key);
  if (security == Security::off && !loopback) {
    throw InvalidArgument(
        "option transport_security: \"off\" is allowed only on loopback, because everyone on the network could read "
        "and change what is sent. Use \"encrypt\", or \"force-off\" to accept the risk");
  }
  for (auto& liveness : liveness_) liveness.store(Liveness::alive);
  for (auto& heard : heard_) heard.store(now_ns());
  server_ = std::make_unique<Server>(*this);
  if (loopback) own_.port = server_->listen({own_.list[0].address});
}

void RpcTransport::listen(const std::vector<Addresses>& all) {
  std::set<std::uint32_t> used;
  for (int r = 0; r < world_.size(); ++r) {
    if (world_.location(r).host != world_.here().host) {
      used.insert(address_to(own_, all[static_cast<std::size_t>(r)]));
    }
  }
  own_.port = server_->listen({used.begin(), used.end()});
}

RpcTransport::~RpcTransport() { stop(); }

void RpcTransport::start(const std::vector<Addresses>& all) {
  for (const Addresses& theirs : all) endpoints_.push_back(endpoint_to(theirs, own_));
  for (auto& heard : heard_) heard.store(now_ns());
  served_.store(now_ns());
  server_->start();
}

void RpcTransport::stop() {
  if (server_ != nullptr) server_->stop();
}

void RpcTransport::release_to_parent() {
  (void)server_.release();
  for (auto& [to, connections] : idle_) {
    for (auto& connection : connections) (void)connection.release();
  }
}

void RpcTransport::set_handler(RequestHandler* handler) { server_->set_handler(handler); }
void RpcTransport::notify_change() { server_->notify_change(); }
void RpcTransport::answer(const ReturnAddress& back, const Problem* problem, std::span<const char> body) {
  server_->answer(back, problem, body);
}
void RpcTransport::report_waiting(const ReturnAddress& back, std::span<const std::int32_t> ranks) {
  server_->report_waiting(back, ranks);
}

double RpcTransport::silence(int host) const {
  return seconds(served_.load() - heard_[static_cast<std::size_t>(host)].load());
}

bool RpcTransport::is_avoided(int rank) const { return avoided_[static_cast<std::size_t>(rank)].load() > now_ns(); }

int RpcTransport::serving_rank(int host) const {
  std::vector<int> ranks;
  for (int r = 0; r < world_.size(); ++r) {
    if (world_.location(r).host == host) ranks.push_back(r);
  }
  const std::size_t mine = static_cast<std::size_t>(world_.here().local);
  for (const bool even_silent : {false, true}) {
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const int rank = ranks[(mine + i) % ranks.size()];
      if (members_.liveness(rank) != Liveness::dead && (even_silent || !is_avoided(rank))) return rank;
    }
  }
  return ranks.empty() ? -1 : ranks[mine % ranks.size()];
}

std::unique_ptr<RpcConnection> RpcTransport::acquire_connection(int to) {
  {
    const std::lock_guard lock(mutex_);
    auto& idle = idle_[to];
    if (!idle.empty()) {
      auto connection = std::move(idle.back());
      idle.pop_back();
      return connection;
    }
  }
  return new_connection(to);
}

std::unique_ptr<RpcConnection> RpcTransport::new_connection(int to) {
  try {
    return std::make_unique<RpcConnection>(zmq_, key_, world_.rank(), to, endpoints_[static_cast<std::size_t>(to)],
                                           keys_ ? &*keys_ : nullptr);
  } catch (const zmq::error_t& error) {
    throw TransportError(fmt::format("[rank {}] cannot open a connection to {}: {}{}", world_.rank(),
                                     members_.describe(to), error.what(),
                                     error.num() == EMFILE ? " (see ulimit -n)" : ""));
  }
}

void RpcTransport::release_connection(std::unique_ptr<RpcConnection> connection) {
  const std::lock_guard lock(mutex_);
  idle_[connection->to()].push_back(std::move(connection));
}

void RpcTransport::exchange(const RequestBatch& exchange) {
  while (!exchange_slots_.try_acquire_for(std::chrono::milliseconds(50))) {
    waiter_.check_interrupt(name_of(exchange.call), [] { return "a connection that other threads use"; });
  }
  struct Leave {
    std::counting_semaphore<16>& seats;
    ~Leave() { seats.release(); }
  } const leave{exchange_slots_};

  std::map<int, std::unique_ptr<PeerExchange>> by_rank;
  for (std::size_t i = 0; i < exchange.count; ++i) {
    const int to = exchange.request(i).to;
    auto& peer = by_rank[to];
    if (peer == nullptr) peer = std::make_unique<PeerExchange>(*this, exchange, world_.location(to).host);
    peer->add(i);
  }
  std::vector<PeerExchange*> peers;
  for (auto& [to, peer] : by_rank) {
    peer->connect(to);
    peer->send();
    peers.push_back(peer.get());
  }
  exchange.meanwhile();

  const auto ready = [&] { return std::ranges::all_of(peers, [](const PeerExchange* peer) { return peer->done(); }); };
  const auto missing = [&] {
    std::vector<int> ranks;
    for (const PeerExchange* peer : peers) {
      if (peer->done()) continue;
      if (peer->waits_for().empty() && members_.liveness(peer->to()) != Liveness::dead) ranks.push_back(peer->to());
      ranks.insert(ranks.end(), peer->waits_for().begin(), peer->waits_for().end());
    }
    return ranks;
  };
  std::vector<zmq::pollitem_t> polled;
  const auto sleep = [&](std::int64_t ns) {
    polled.clear();
    for (PeerExchange* peer : peers)
      polled.push_back({.socket = peer->socket().handle(), .fd = 0, .events = ZMQ_POLLIN, .revents = 0});
    try {
      (void)await(polled, ns);
    } catch (const zmq::error_t& error) {
      if (error.num() != EINTR) throw TransportError(fmt::format("zmq_poll: {}", error.what()));
    }
    for (PeerExchange* peer : peers) {
      peer->receive();
      peer->check();
      peer->send();
    }
  };
  waiter_.wait_by(sleep, {.call = exchange.call,
                          .ready = ready,
                          .missing = missing,
                          .ordered = exchange.ordered,
                          .in_step = exchange.in_step});
  std::optional<Problem> problem;
  for (PeerExchange* peer : peers) {
    if (!problem) problem = peer->problem();
    release_connection(peer->end());
  }
  if (problem) problem->raise();
}

}  // namespace pleiad

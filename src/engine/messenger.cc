#include "engine/messenger.h"

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
#include "engine/message_service.h"

namespace pleiad {

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kAvoid = 10 * kSecond;  // how long a silent rank gets no requests
constexpr double kQuiet = 3;  // seconds of silence after which another rank of the host gets the requests

double seconds(std::int64_t ns) { return static_cast<double>(ns) * 1e-9; }

}  // namespace

// The part of an exchange that uses one connection.
class Messenger::Talk {
 public:
  Talk(Messenger& messenger, const Exchange& exchange, int host)
      : messenger_(messenger), exchange_(exchange), host_(host) {}

  void add(std::size_t item) { unsent_.push_back(item); }
  void connect(int to) {
    channel_ = messenger_.take_channel(to);
    epoch_ = channel_->epoch();
    connected_ = pinged_ = looked_ = now_ns();
    if (heard_ == 0) heard_ = connected_;
  }
  [[nodiscard]] int host() const { return host_; }
  [[nodiscard]] int to() const { return channel_->to(); }
  [[nodiscard]] zmq::socket_t& socket() { return channel_->socket(); }
  [[nodiscard]] bool done() const { return open_.empty() && (unsent_.empty() || problem_.has_value()); }
  [[nodiscard]] const std::optional<Problem>& problem() const { return problem_; }
  [[nodiscard]] const std::vector<int>& waits_for() const { return waits_for_; }
  [[nodiscard]] std::unique_ptr<Channel> end() { return std::move(channel_); }

  void send() {
    channel_->greet(now_ns());
    if (!channel_->welcomed()) return;
    if (channel_->epoch() != epoch_) {  // a new connection: requests in progress may be lost
      epoch_ = channel_->epoch();
      std::vector<std::uint64_t> again;
      for (const auto& [sequence, item] : open_) again.push_back(sequence);
      for (const std::uint64_t sequence : again) send_item(sequence, open_[sequence]);
    }
    while (!unsent_.empty() && open_.size() < kWindow && !problem_) {
      const std::uint64_t sequence = channel_->next_sequence();
      const std::size_t item = unsent_.front();
      unsent_.pop_front();
      open_[sequence] = item;
      send_item(sequence, item);
    }
  }

  void receive() {
    while (auto incoming = channel_->receive()) {
      heard_ = now_ns();
      const FrameHead& head = incoming->frame.head;
      const auto found = open_.find(head.sequence);
      if (found == open_.end() || head.kind == FrameKind::pong) continue;
      if (head.kind == FrameKind::stranger) {
        send_item(found->first, found->second);
      } else if (head.kind == FrameKind::note) {
        read_note(incoming->frame.body);
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
  void look() {
    if (done()) return;
    const std::int64_t now = now_ns();
    Engine& engine = messenger_.engine_;
    // If this check is late, the process was stopped or had no core, and may not have read what arrived meanwhile.
    if (now - std::exchange(looked_, now) >= kPause) heard_ = pinged_ = now;
    if (engine.life(to()) == Life::dead) return change_carrier("died");
    const double host_timeout = engine.options().host_timeout;
    const double silent = seconds(now - heard_);
    if (silent >= host_timeout) {
      throw SilenceError(fmt::format(
          "[rank {}] {}: {} at {} has not answered for {:.1f} s: is the host up, and the "
          "network?{}",
          engine.rank(), name_of(exchange_.call), engine.describe(to()), channel_->endpoint(), silent, in_part()));
    }
    if (seconds(now - std::max(heard_, connected_)) >= std::min(kQuiet, host_timeout / 4) && in_part().empty()) {
      // The rank may be stopped while its neighbours run.
      messenger_.avoided_[static_cast<std::size_t>(to())].store(now + kAvoid);
      const int next = messenger_.carrier(host_);
      if (next != to() && !messenger_.avoided(next)) return change_carrier("is silent");
    }
    if (now - std::max(heard_, pinged_) >= kSecond && channel_->welcomed()) {
      pinged_ = now;
      zmq::message_t ping = make_frame(channel_->head(FrameKind::ping), 0);
      (void)channel_->send(ping);
    }
  }

 private:
  void send_item(std::uint64_t sequence, std::size_t item) {
    const Part part = exchange_.part(item);
    FrameHead head = channel_->head(FrameKind::request);
    head.sequence = sequence;
    head.operation = part.operation;
    head.repeatable = part.repeatable ? 1 : 0;
    zmq::message_t frame = make_frame(head, part.bytes, &messenger_.frames_);
    exchange_.fill(item, body_of(frame));
    if (!channel_->send(frame)) throw InternalError("a connection's queue is full beyond its window");
  }

  void read_note(std::span<const char> body) {
    waits_for_.clear();
    for (; body.size() >= sizeof(std::int32_t); body = body.subspan(sizeof(std::int32_t))) {
      std::int32_t rank = 0;
      std::memcpy(&rank, body.data(), sizeof rank);
      if (rank >= 0 && rank < messenger_.engine_.size()) waits_for_.push_back(rank);
    }
  }

  [[nodiscard]] std::string in_part() const {
    const bool harmless =
        std::ranges::all_of(open_, [&](const auto& o) { return exchange_.part(o.second).repeatable; });
    return harmless ? "" : " What it was asked to do may have been carried out in part";
  }

  // Another rank of the host has the same shards, but does not know which requests this one has executed.
  void change_carrier(std::string_view why) {
    Engine& engine = messenger_.engine_;
    const int next = messenger_.carrier(host_);
    const std::string part = in_part();
    if (!part.empty() || next < 0 || engine.life(next) == Life::dead) {
      throw TransportError(fmt::format("[rank {}] {}: {} {}.{}", engine.rank(), name_of(exchange_.call),
                                       engine.describe(to()), why, part));
    }
    for (const auto& [sequence, item] : open_) unsent_.push_back(item);
    open_.clear();
    connect(next);
  }

  Messenger& messenger_;
  const Exchange& exchange_;
  int host_;
  std::unique_ptr<Channel> channel_;
  std::deque<std::size_t> unsent_;
  std::map<std::uint64_t, std::size_t> open_;
  std::uint32_t epoch_ = 0;
  std::int64_t heard_ = 0;  ///< the last frame from any rank of the host
  std::int64_t connected_ = 0;
  std::int64_t pinged_ = 0;
  std::int64_t looked_ = 0;
  std::vector<int> waits_for_;
  std::optional<Problem> problem_;
};

Messenger::Messenger(Engine& engine, const JobKey& key, bool loopback)
    : engine_(engine),
      key_(key),
      own_(own_addresses(loopback ? "127.0.0.1" : engine.options().interface)),
      context_(1),
      lives_(static_cast<std::size_t>(engine.size())),
      heard_(static_cast<std::size_t>(engine.hosts())),
      avoided_(static_cast<std::size_t>(engine.size())) {
  const std::string& security = engine.options().transport_security;
  if (security == "encrypt") keys_.emplace(key);
  if (security == "off" && !loopback) {
    throw InvalidArgument(
        "option transport_security: off is for hosts on loopback; here it would let everyone on the network read and "
        "change "
        "what is sent (force-off does it all the same)");
  }
  for (auto& life : lives_) life.store(Life::alive);
  for (auto& heard : heard_) heard.store(now_ns());
  service_ = std::make_unique<Service>(*this);
  if (loopback) own_.port = service_->listen({own_.list[0].address});
}

void Messenger::listen(const std::vector<Addresses>& all) {
  std::set<std::uint32_t> used;
  for (int r = 0; r < engine_.size(); ++r) {
    if (engine_.place(r).host != engine_.place(engine_.rank()).host) {
      used.insert(address_to(own_, all[static_cast<std::size_t>(r)]));
    }
  }
  own_.port = service_->listen({used.begin(), used.end()});
}

Messenger::~Messenger() { stop(); }

void Messenger::start(const std::vector<Addresses>& all) {
  for (const Addresses& theirs : all) endpoints_.push_back(endpoint_to(theirs, own_));
  for (auto& heard : heard_) heard.store(now_ns());
  served_.store(now_ns());
  service_->start();
}

void Messenger::stop() {
  if (service_ != nullptr) service_->stop();
}

void Messenger::forget() {
  (void)service_.release();
  for (auto& [to, channels] : idle_) {
    for (auto& channel : channels) (void)channel.release();
  }
}

void Messenger::set_handler(RequestHandler* handler) { service_->set_handler(handler); }
void Messenger::news() { service_->news(); }
void Messenger::answer(const ReturnAddress& back, const Problem* problem, std::span<const char> body) {
  service_->answer(back, problem, body);
}
void Messenger::note(const ReturnAddress& back, std::span<const std::int32_t> ranks) { service_->note(back, ranks); }

double Messenger::silence(int host) const {
  return seconds(served_.load() - heard_[static_cast<std::size_t>(host)].load());
}

bool Messenger::avoided(int rank) const { return avoided_[static_cast<std::size_t>(rank)].load() > now_ns(); }

int Messenger::carrier(int host) const {
  std::vector<int> ranks;
  for (int r = 0; r < engine_.size(); ++r) {
    if (engine_.place(r).host == host) ranks.push_back(r);
  }
  const std::size_t mine = static_cast<std::size_t>(engine_.place(engine_.rank()).local);
  for (const bool even_silent : {false, true}) {
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const int rank = ranks[(mine + i) % ranks.size()];
      if (engine_.life(rank) != Life::dead && (even_silent || !avoided(rank))) return rank;
    }
  }
  return ranks.empty() ? -1 : ranks[mine % ranks.size()];
}

std::unique_ptr<Channel> Messenger::take_channel(int to) {
  {
    const std::lock_guard lock(mutex_);
    auto& idle = idle_[to];
    if (!idle.empty()) {
      auto channel = std::move(idle.back());
      idle.pop_back();
      return channel;
    }
  }
  return new_channel(to);
}

std::unique_ptr<Channel> Messenger::new_channel(int to) {
  try {
    return std::make_unique<Channel>(context_, key_, engine_.rank(), to, endpoints_[static_cast<std::size_t>(to)],
                                     keys_ ? &*keys_ : nullptr);
  } catch (const zmq::error_t& error) {
    throw TransportError(fmt::format("[rank {}] cannot open a connection to {}: {}{}", engine_.rank(),
                                     engine_.describe(to), error.what(),
                                     error.num() == EMFILE ? " (see ulimit -n)" : ""));
  }
}

void Messenger::give_back(std::unique_ptr<Channel> channel) {
  const std::lock_guard lock(mutex_);
  idle_[channel->to()].push_back(std::move(channel));
}

void Messenger::exchange(const Exchange& exchange) {
  while (!talkers_.try_acquire_for(std::chrono::milliseconds(50))) {
    engine_.check_interrupt(name_of(exchange.call), [] { return "a connection that other threads use"; });
  }
  struct Leave {
    std::counting_semaphore<16>& seats;
    ~Leave() { seats.release(); }
  } const leave{talkers_};

  std::map<int, std::unique_ptr<Talk>> by_rank;
  for (std::size_t i = 0; i < exchange.count; ++i) {
    const int to = exchange.part(i).to;
    auto& talk = by_rank[to];
    if (talk == nullptr) talk = std::make_unique<Talk>(*this, exchange, engine_.place(to).host);
    talk->add(i);
  }
  std::vector<Talk*> talks;
  for (auto& [to, talk] : by_rank) {
    talk->connect(to);
    talk->send();
    talks.push_back(talk.get());
  }
  exchange.meanwhile();

  const auto ready = [&] { return std::ranges::all_of(talks, [](const Talk* talk) { return talk->done(); }); };
  const auto missing = [&] {
    std::vector<int> ranks;
    for (const Talk* talk : talks) {
      if (talk->done()) continue;
      if (talk->waits_for().empty() && engine_.life(talk->to()) != Life::dead) ranks.push_back(talk->to());
      ranks.insert(ranks.end(), talk->waits_for().begin(), talk->waits_for().end());
    }
    return ranks;
  };
  std::vector<zmq::pollitem_t> polled;
  const auto sleep = [&](std::int64_t ns) {
    polled.clear();
    for (Talk* talk : talks)
      polled.push_back({.socket = talk->socket().handle(), .fd = 0, .events = ZMQ_POLLIN, .revents = 0});
    try {
      (void)await(polled, ns);
    } catch (const zmq::error_t& error) {
      if (error.num() != EINTR) throw TransportError(fmt::format("zmq_poll: {}", error.what()));
    }
    for (Talk* talk : talks) {
      talk->receive();
      talk->look();
      talk->send();
    }
  };
  engine_.wait_by(sleep, {.call = exchange.call,
                          .ready = ready,
                          .missing = missing,
                          .ordered = exchange.ordered,
                          .in_step = exchange.in_step});
  std::optional<Problem> problem;
  for (Talk* talk : talks) {
    if (!problem) problem = talk->problem();
    give_back(talk->end());
  }
  if (problem) problem->raise();
}

}  // namespace pleiad

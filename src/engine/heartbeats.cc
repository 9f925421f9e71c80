// Heartbeats between hosts: each process exchanges the state of its host with one process of every other host.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "core/process.h"
#include "engine/rpc_server.h"

namespace pleiad {

namespace {

constexpr std::int64_t kTryAnother = 2'000'000'000;

struct HeartbeatHead {
  std::uint32_t ranks = 0;
  std::uint32_t failure_bytes = 0;
  std::uint32_t gave_up = 0;
};
struct HeartbeatRank {
  std::int32_t rank = 0;
  Liveness liveness = Liveness::alive;
};

}  // namespace

std::vector<char> RpcTransport::Server::make_heartbeat() const {
  const std::string failure = rpc_.failure_.text();
  const HeartbeatHead head{.ranks = static_cast<std::uint32_t>(world_.local_ranks()),
                           .failure_bytes = static_cast<std::uint32_t>(failure.size()),
                           .gave_up = rpc_.failure_.gave_up() ? 1U : 0U};
  std::vector<char> bytes(sizeof head + head.ranks * sizeof(HeartbeatRank) + failure.size());
  std::memcpy(bytes.data(), &head, sizeof head);
  for (int local = 0; local < world_.local_ranks(); ++local) {
    const int rank = world_.world_rank(local);
    const HeartbeatRank one{.rank = rank, .liveness = rpc_.members_.liveness(rank)};
    std::memcpy(bytes.data() + sizeof head + static_cast<std::size_t>(local) * sizeof one, &one, sizeof one);
  }
  std::memcpy(bytes.data() + bytes.size() - failure.size(), failure.data(), failure.size());
  return bytes;
}

void RpcTransport::Server::read_heartbeat(int from, std::span<const char> body) {
  HeartbeatHead head;
  if (!take(body, head) || head.ranks > static_cast<std::uint32_t>(world_.size())) return;
  const int host = world_.location(from).host;
  rpc_.heard_[static_cast<std::size_t>(host)].store(now_ns());
  bool changed = false;
  for (std::uint32_t i = 0; i < head.ranks; ++i) {
    HeartbeatRank one;
    if (!take(body, one)) return;
    if (one.rank < 0 || one.rank >= world_.size() || world_.location(one.rank).host != host) continue;
    if (one.liveness != Liveness::left && one.liveness != Liveness::dead) continue;
    auto& liveness = rpc_.liveness_[static_cast<std::size_t>(one.rank)];
    Liveness alive = Liveness::alive;
    if (liveness.compare_exchange_strong(alive, one.liveness)) {
      changed = true;
      if (one.liveness == Liveness::dead) log_.error(fmt::format("{} died", rpc_.members_.describe(one.rank)));
    }
  }
  if (head.failure_bytes > 0 && head.failure_bytes == body.size()) {
    (void)rpc_.failure_.record({body.data(), body.size()}, head.gave_up != 0);
    changed = true;
  }
  if (changed) rpc_.members_.wake_all();
}

// Restarts the measurement of the other hosts' silence if this process did not run, because it has not yet read what
// they sent meanwhile.
void RpcTransport::Server::detect_pause(std::int64_t now) {
  const std::int64_t late = now - rpc_.served_.load();
  if (late >= kPauseThreshold) {
    for (auto& heard : rpc_.heard_) heard.store(now);
    for (HeartbeatLink& link : links_) link.began = now;
    log_.warn(fmt::format("this process did not run for {:.1f} s: it was stopped or got no processor time",
                          static_cast<double>(late) * 1e-9));
  }
  rpc_.served_.store(now);
}

// Sends a heartbeat to one process of every other host twice a second, and at once if the state of this host changed.
void RpcTransport::Server::exchange_heartbeats(std::int64_t now, bool at_once) {
  for (HeartbeatLink& link : links_) {
    if (link.connection != nullptr) {
      while (auto incoming = link.connection->receive()) {
        link.heard = now;
        if (incoming->frame.head.kind == FrameKind::heartbeat_reply)
          read_heartbeat(link.connection->to(), incoming->frame.body);
      }
      if (now - std::max(link.heard, link.began) >= kTryAnother) link.connection = nullptr;
    }
    if (link.connection == nullptr) {
      const int to = link.ranks[link.next++ % link.ranks.size()];
      link.connection = rpc_.new_connection(to);
      link.began = now;
      link.sent = 0;
    }
    link.connection->send_hello(now);
    if (!link.connection->authenticated() || (!at_once && now - link.sent < kHeartbeatInterval)) continue;
    link.sent = now;
    const std::vector<char> mine = make_heartbeat();
    zmq::message_t frame = make_frame(link.connection->head(FrameKind::heartbeat), mine.size());
    std::memcpy(body_of(frame).data(), mine.data(), mine.size());
    (void)link.connection->send(frame);
  }
}

}  // namespace pleiad

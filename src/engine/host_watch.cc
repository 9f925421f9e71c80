// Heartbeats between hosts: each process exchanges the state of its host with one process of every other host.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "core/process.h"
#include "engine/message_service.h"

namespace pleiad {

namespace {

constexpr std::int64_t kTryAnother = 2'000'000'000;

struct BeatHead {
  std::uint32_t ranks = 0;
  std::uint32_t failure_bytes = 0;
  std::uint32_t gave_up = 0;
};
struct BeatRank {
  std::int32_t rank = 0;
  Life life = Life::alive;
};

}  // namespace

std::vector<char> Messenger::Service::beat() const {
  const std::string failure = engine_.failure();
  const BeatHead head{.ranks = static_cast<std::uint32_t>(engine_.local_ranks()),
                      .failure_bytes = static_cast<std::uint32_t>(failure.size()),
                      .gave_up = engine_.gave_up() ? 1U : 0U};
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
    (void)engine_.fail({body.data(), body.size()}, head.gave_up != 0);
    changed = true;
  }
  if (changed) engine_.wake_all();
}

// Restarts the measurement of the other hosts' silence if this process did not run, because it has not yet read what
// they sent meanwhile.
void Messenger::Service::note_turn(std::int64_t now) {
  const std::int64_t late = now - messenger_.served_.load();
  if (late >= kPause) {
    for (auto& heard : messenger_.heard_) heard.store(now);
    for (Watch& watch : watches_) watch.began = now;
    engine_.log().warn(fmt::format("this process did not run for {:.1f} s: it was stopped, or had no core",
                                   static_cast<double>(late) * 1e-9));
  }
  messenger_.served_.store(now);
}

// Sends a heartbeat to one process of every other host twice a second, and at once if the state of this host changed.
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

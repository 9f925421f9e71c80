#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "core/kernels.h"
#include "pleiad/error.h"
#include "pleiad/spatial.h"
#include "session/core.h"
#include "spatial/block.h"
#include "spatial/transfers.h"

namespace pleiad {
namespace {

// Tags from here on are reserved for exchanges; those of users are smaller.
constexpr std::uint32_t kFirstTag = 0x40000000;
constexpr int kMaxPieces = 8;

std::size_t pixel_bytes(const HaloSpec& spec) { return static_cast<std::size_t>(spec.channels) * size_of(spec.dtype); }

void check(const HaloSpec& spec, const World& world) {
  const auto wrong = [&](const std::string& what) {
    return InvalidArgument(fmt::format("exchange \"{}\": {}", spec.name, what));
  };
  if (spec.batch < 1 || spec.channels < 1 || spec.pieces < 1) {
    throw wrong(fmt::format("expected batch, channels and pieces of at least 1; received {}, {} and {}", spec.batch,
                            spec.channels, spec.pieces));
  }
  if (spec.pieces > kMaxPieces)
    throw wrong(fmt::format("expected at most {} pieces; received {}", kMaxPieces, spec.pieces));
  if (spec.own.size() != spec.need.size()) {
    throw wrong(fmt::format("received {} owned and {} needed regions; expected equal numbers", spec.own.size(),
                            spec.need.size()));
  }
  std::map<int, int> seen;
  for (const std::vector<int>& team : spec.teams) {
    if (team.size() != spec.own.size()) {
      throw wrong(fmt::format("received a team of {} ranks for {} regions", team.size(), spec.own.size()));
    }
    for (const int rank : team) {
      if (!world.contains(rank)) {
        throw wrong(fmt::format("{} is not a rank; the world has {} ranks", rank, world.size()));
      }
      if (++seen[rank] > 1) throw wrong(fmt::format("rank {} is a member twice", rank));
    }
  }
  for (std::size_t a = 0; a < spec.own.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      if (!intersect(spec.own[a], spec.own[b]).empty())
        throw wrong(fmt::format("members {} and {} own overlapping regions", b, a));
    }
  }
}

}  // namespace

std::int64_t halo_bytes(const HaloSpec& spec, int m) {
  std::int64_t places = 0;
  const auto me = static_cast<std::size_t>(m);
  for (std::size_t other = 0; other < spec.need.size(); ++other) {
    if (other != me) places += intersect(spec.own[me], spec.need[other]).places();
  }
  return places * spec.batch * static_cast<std::int64_t>(pixel_bytes(spec));
}

class HaloExchange::Impl {
 public:
  Impl(Session& session, HaloSpec wanted) : spec(std::move(wanted)), engine(session.core().engine()) {
    check(spec, engine.world());
    spec.pieces = static_cast<int>(std::min<std::int64_t>(spec.pieces, spec.batch));
    const std::size_t members = spec.own.size();
    const std::uint32_t first_tag = kFirstTag + session.core().next_exchange() * 2 * kMaxPieces;
    std::vector<TransferPlan> plans;
    for (const std::vector<int>& team : spec.teams) {
      const auto found = std::ranges::find(team, engine.world().rank());
      const bool mine = found != team.end();
      if (mine) {
        member = found - team.begin();
        own = spec.own[static_cast<std::size_t>(member)];
        need = spec.need[static_cast<std::size_t>(member)];
        if (own.empty()) own = {};
        if (need.empty()) need = {};
        const std::int64_t n = static_cast<std::int64_t>(members);
        for (std::int64_t k = 1; k < n; ++k) {
          add_peer(out_, (member + k) % n, true);
          add_peer(in_, (member - k + n) % n, false);
        }
      }
      for (std::size_t s = 0; s < members; ++s) {
        for (std::size_t r = 0; r < members; ++r) {
          const Rect part = s == r ? Rect{} : intersect(spec.own[s], spec.need[r]);
          if (part.empty()) continue;
          for (int piece = 0; piece < spec.pieces; ++piece) {
            const std::size_t bytes =
                static_cast<std::size_t>(part.places() * samples(piece).size()) * pixel_bytes(spec);
            for (const bool back : {false, true}) {
              if (mine) record_transfer(plans.size(), s, r, piece, back);
              // The tag of a message is computed from values that both ranks know.
              const auto tag = first_tag + static_cast<std::uint32_t>(piece * 2 + (back ? 1 : 0));
              plans.push_back({.from = team[back ? r : s], .to = team[back ? s : r], .bytes = bytes, .tag = tag});
            }
          }
        }
      }
    }
    self_ = intersect(own, need);
    std::int64_t covered = self_.places();
    for (const Peer& peer : in_) covered += peer.part.places();
    whole_need_ = covered == need.places();
    transfers_.emplace(engine, spec.name, std::move(plans), spec.path == HaloPath::messages, spec.delay);
  }

  [[nodiscard]] Interval samples(int piece) const { return part_of(spec.batch, spec.pieces, piece); }

  void begin(int piece, const void* from, bool back) {
    expect_order(piece, back, 0);
    const ImageBlock block = block_of(from, back ? need : own);
    for (const Peer& peer : back ? in_ : out_) {  // backward sends to the peers that forward received from
      const std::size_t transfer = peer.transfer(piece, back);
      char* to = transfers_->fill(transfer);
      for_rows(block, peer.part, samples(piece), [&](const char* row, std::size_t length) {
        copy_bytes(to, row, length);
        to += length;
      });
      transfers_->send(transfer);
      sent += peer.part.places() * samples(piece).size() * static_cast<std::int64_t>(pixel_bytes(spec));
    }
    for (const Peer& peer : back ? out_ : in_) transfers_->expect(peer.transfer(piece, back));
  }

  void finish_forward(int piece, const void* from, void* to) {
    expect_order(piece, false, 1);
    const ImageBlock mine = block_of(from, own);
    const ImageBlock block = block_of(to, need);
    if (!whole_need_) zero(block, piece);
    copy_part(block, mine, self_, samples(piece));
    for (const Peer& peer : in_) {
      const char* message = transfers_->receive(peer.transfer(piece, false));
      for_rows(block, peer.part, samples(piece), [&](char* row, std::size_t length) {
        copy_bytes(row, message, length);
        message += length;
      });
      transfers_->release(peer.transfer(piece, false));
    }
    for (const Peer& peer : out_) transfers_->flush(peer.transfer(piece, false));
  }

  void finish_backward(int piece, const void* from, void* to) {
    expect_order(piece, true, 1);
    const ImageBlock mine = block_of(from, need);
    const ImageBlock block = block_of(to, own);
    if (self_ != own) zero(block, piece);
    copy_part(block, mine, self_, samples(piece));
    for (const Peer& peer : out_) {
      const char* message = transfers_->receive(peer.transfer(piece, true));
      for_rows(block, peer.part, samples(piece), [&](char* row, std::size_t length) {
        add_to(spec.dtype, row, message, length / size_of(spec.dtype));
        message += length;
      });
      transfers_->release(peer.transfer(piece, true));
    }
    for (const Peer& peer : in_) transfers_->flush(peer.transfer(piece, true));
  }

  HaloSpec spec;
  Engine& engine;
  std::int64_t member = -1;
  Rect own;
  Rect need;
  std::int64_t sent = 0;

 private:
  /// Another member, and the region that is sent to it or received from it in the forward direction.
  struct Peer {
    std::int64_t member;
    Rect part;
    std::vector<std::size_t> transfers;  // index: piece * 2 + back
    [[nodiscard]] std::size_t transfer(int piece, bool back) const {
      return transfers[static_cast<std::size_t>(piece * 2 + (back ? 1 : 0))];
    }
  };

  void add_peer(std::vector<Peer>& peers, std::int64_t other, bool out) const {
    const auto o = static_cast<std::size_t>(other);
    const Rect part = out ? intersect(own, spec.need[o]) : intersect(spec.own[o], need);
    if (part.empty()) return;
    peers.push_back({other, part, std::vector<std::size_t>(static_cast<std::size_t>(2 * spec.pieces))});
  }
  void record_transfer(std::size_t index, std::size_t s, std::size_t r, int piece, bool back) {
    const auto put = [&](std::vector<Peer>& peers, std::size_t other) {
      const auto found = std::ranges::find(peers, static_cast<std::int64_t>(other), &Peer::member);
      found->transfers[static_cast<std::size_t>(piece * 2 + (back ? 1 : 0))] = index;
    };
    if (static_cast<std::int64_t>(s) == member) put(out_, r);
    if (static_cast<std::int64_t>(r) == member) put(in_, s);
  }
  [[nodiscard]] ImageBlock block_of(const void* data, const Rect& rect) const {
    return {static_cast<char*>(const_cast<void*>(data)), rect, pixel_bytes(spec)};
  }
  void zero(const ImageBlock& block, int piece) const {
    const Interval which = samples(piece);
    std::memset(block.data + static_cast<std::size_t>(which.begin) * block.image_bytes(), 0,
                static_cast<std::size_t>(which.size()) * block.image_bytes());
  }
  /// Checks that begin and finish alternate for each piece and direction.
  void expect_order(int piece, bool back, int stage) {
    if (piece < 0 || piece >= spec.pieces) {
      throw InvalidArgument(
          fmt::format("exchange \"{}\" has {} pieces; received piece {}", spec.name, spec.pieces, piece));
    }
    stage_.resize(static_cast<std::size_t>(2 * spec.pieces));
    int& at = stage_[static_cast<std::size_t>(piece * 2 + (back ? 1 : 0))];
    if (at != stage) {
      throw StateError(fmt::format("exchange \"{}\": piece {} was {}", spec.name, piece,
                                   stage == 0 ? "started twice" : "finished before it was started"));
    }
    at = 1 - stage;
  }

  std::vector<Peer> out_;  // by distance
  std::vector<Peer> in_;
  Rect self_;
  bool whole_need_ = true;
  std::vector<int> stage_;
  std::optional<Transfers> transfers_;
};

HaloExchange::HaloExchange(Session& session, HaloSpec spec) : impl_(std::make_unique<Impl>(session, std::move(spec))) {}
HaloExchange::~HaloExchange() = default;

void HaloExchange::begin_forward(int piece, const void* own) { impl_->begin(piece, own, false); }
void HaloExchange::finish_forward(int piece, const void* own, void* need) { impl_->finish_forward(piece, own, need); }
void HaloExchange::begin_backward(int piece, const void* need) { impl_->begin(piece, need, true); }
void HaloExchange::finish_backward(int piece, const void* need, void* own) { impl_->finish_backward(piece, need, own); }

void HaloExchange::forward(const void* own, void* need) {
  for (int piece = 0; piece < spec().pieces; ++piece) begin_forward(piece, own);
  for (int piece = 0; piece < spec().pieces; ++piece) finish_forward(piece, own, need);
}

void HaloExchange::backward(const void* need, void* own) {
  for (int piece = 0; piece < spec().pieces; ++piece) begin_backward(piece, need);
  for (int piece = 0; piece < spec().pieces; ++piece) finish_backward(piece, need, own);
}

Interval HaloExchange::samples(int piece) const { return impl_->samples(piece); }
const HaloSpec& HaloExchange::spec() const { return impl_->spec; }
const Rect& HaloExchange::own() const { return impl_->own; }
const Rect& HaloExchange::need() const { return impl_->need; }
std::int64_t HaloExchange::planned_bytes() const {
  return impl_->member < 0 ? 0 : halo_bytes(impl_->spec, static_cast<int>(impl_->member));
}
std::int64_t HaloExchange::sent_bytes() const { return impl_->sent; }

}  // namespace pleiad

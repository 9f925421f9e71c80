// send and receive between ranks of one host, through a ring buffer for each pair of ranks. A message consists of its
// tag, its length and its bytes. It is streamed through the ring, so it may be larger than the ring.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "core/kernels.h"
#include "core/text.h"
#include "engine/engine.h"
#include "engine/inbox.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {

struct Header {
  std::uint64_t bytes;
  std::uint64_t tag;
};

// Calls part(ring offset, offset, length) for the one or two contiguous regions that `bytes` bytes from position `at`
// occupy in a ring of `size`.
template <class F>
void stretches(std::uint64_t at, std::size_t bytes, std::size_t size, F&& part) {
  const std::size_t start = at % size;
  const std::size_t first = std::min(bytes, size - start);
  part(start, std::size_t{0}, first);
  if (first < bytes) part(std::size_t{0}, first, bytes - first);
}

}  // namespace

// Writes to or reads from the mailbox of two ranks of this host. The caller holds the seat.
class Engine::Stream {
 public:
  Stream(Engine& engine, Call call, int from, int to)
      : engine_(engine),
        call_(call),
        from_(from),
        to_(to),
        box_(engine.control_.mailbox(engine.place(from).local, engine.place(to).local)),
        ring_(engine.control_.mailbox_bytes(engine.place(from).local, engine.place(to).local)),
        size_(engine.control_.mailbox_size()) {}
  // The rest of an aborted message cannot be told apart from the next message, so the mailbox becomes unusable.
  ~Stream() {
    if (!in_message_) return;
    box_.broken.store(1);
    engine_.control_.head().mail.notify();
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void write(const void* from, std::size_t bytes) {
    move(
        bytes, box_.written, [&] { return size_ - (box_.written.load() - box_.read.load()); },
        [&](std::size_t at, std::size_t done, std::size_t length) {
          copy_bytes(ring_ + at, static_cast<const char*>(from) + done, length);
        });
  }
  void read(void* to, std::size_t bytes) {
    move(
        bytes, box_.read, [&] { return box_.written.load() - box_.read.load(); },
        [&](std::size_t at, std::size_t done, std::size_t length) {
          copy_bytes(static_cast<char*>(to) + done, ring_ + at, length);
        });
  }
  void message_is_whole() { in_message_ = false; }

 private:
  // Moves `bytes` in parts of at most can() bytes, each with part(ring offset, bytes moved before, length).
  template <class Can, class Part>
  void move(std::size_t bytes, std::atomic<std::uint64_t>& position, Can&& can, Part&& part) {
    for (std::size_t done = 0; done < bytes;) {
      engine_.wait(engine_.control_.head().mail,
                   {.call = call_,
                    .ready = [&] { return can() > 0 || box_.broken.load() != 0; },
                    .missing = [&] { return std::vector<int>{call_ == Call::send ? to_ : from_}; }});
      if (box_.broken.load() != 0) {
        in_message_ = false;  // another call aborted the message
        throw TransportError(
            fmt::format("[rank {}] {}: a message from rank {} to rank {} was given up half-way, so no "
                        "more can follow it",
                        engine_.rank_, name_of(call_), from_, to_));
      }
      const std::uint64_t at = position.load(std::memory_order_relaxed);
      const std::size_t length = std::min(bytes - done, static_cast<std::size_t>(can()));
      stretches(at, length, size_,
                [&](std::size_t start, std::size_t first, std::size_t count) { part(start, done + first, count); });
      position.store(at + length);
      in_message_ = true;
      engine_.control_.head().mail.notify();
      done += length;
    }
  }

  Engine& engine_;
  Call call_;
  int from_;
  int to_;
  Mailbox& box_;
  char* ring_;
  std::size_t size_;
  bool in_message_ = false;
};

// Waits for the seat, or until `instead` returns true. Releases the seat at the end.
class Engine::Seated {
 public:
  Seated(Engine& engine, Inbox::Seat& seat, Call call, int peer, FunctionRef<bool()> instead) : seat_(seat) {
    const auto ready = [&] { return mine_ || instead() || (mine_ = !seat_.taken.exchange(true)); };
    try {
      engine.wait(seat_.moved, {.call = call, .ready = ready, .missing = [&] { return std::vector<int>{peer}; }});
    } catch (...) {
      give_back();
      throw;
    }
  }
  ~Seated() { give_back(); }
  Seated(const Seated&) = delete;
  Seated& operator=(const Seated&) = delete;

  [[nodiscard]] bool mine() const { return mine_; }

 private:
  void give_back() {
    if (!mine_) return;
    seat_.taken.store(false);
    seat_.moved.notify();
  }

  Inbox::Seat& seat_;
  bool mine_ = false;
};

void Engine::send(int to, std::uint32_t tag, const void* data, std::size_t bytes) {
  check_usable("send");
  take_part();
  if (to < 0 || to >= size())
    throw InvalidArgument(fmt::format("[send] {} is not a rank; the world has {}", to, size()));
  const CallMark mark(*this, Call::send);
  if (place(to).host != place(rank_).host) return remote_send(to, tag, data, bytes);
  if (life(to) == Life::dead) throw TransportError(fmt::format("[rank {}] send: {} died", rank_, describe(to)));
  Inbox::Peer& peer = inbox_->peers[static_cast<std::size_t>(to)];
  if (to == rank_) {
    const std::lock_guard lock(peer.mutex);
    const auto* from = static_cast<const char*>(data);
    peer.early[tag].emplace_back(from, from + bytes);
    return;
  }
  const Seated seated(*this, peer.writing, Call::send, to, [] { return false; });
  Stream stream(*this, Call::send, rank_, to);
  const Header header{.bytes = bytes, .tag = tag};
  stream.write(&header, sizeof header);
  stream.write(data, bytes);
  stream.message_is_whole();
}

void Engine::receive(int from, std::uint32_t tag, void* data, std::size_t bytes) {
  check_usable("receive");
  take_part();
  if (from < 0 || from >= size()) {
    throw InvalidArgument(fmt::format("[receive] {} is not a rank; the world has {}", from, size()));
  }
  const CallMark mark(*this, Call::receive);
  if (place(from).host != place(rank_).host) return remote_receive(from, tag, data, bytes);
  Inbox::Peer& peer = inbox_->peers[static_cast<std::size_t>(from)];
  const auto came_early = [&] {
    const std::lock_guard lock(peer.mutex);
    return !peer.early[tag].empty();
  };
  const auto take_early = [&] {
    const std::lock_guard lock(peer.mutex);
    auto& early = peer.early[tag];
    if (early.empty()) return false;
    const std::size_t came = early.front().size();
    if (came != bytes) {
      throw InvalidArgument(fmt::format("[receive] the message with tag {} from rank {} has {} bytes; expected {}", tag,
                                        from, grouped(static_cast<std::int64_t>(came)),
                                        grouped(static_cast<std::int64_t>(bytes))));
    }
    copy_bytes(data, early.front().data(), bytes);
    early.pop_front();
    return true;
  };
  while (!take_early()) {
    if (from == rank_) throw StateError("[receive] this rank waits for a message from itself that it has not sent");
    // The holder of the seat reads whatever arrives, also for other receivers.
    const Seated seated(*this, peer.reading, Call::receive, from, came_early);
    if (!seated.mine() || came_early()) continue;
    Stream stream(*this, Call::receive, from, rank_);
    Header header{};
    stream.read(&header, sizeof header);
    if (header.tag == tag && header.bytes == bytes) {
      stream.read(data, bytes);
      stream.message_is_whole();
      return;
    }
    std::vector<char> message(header.bytes);
    stream.read(message.data(), message.size());
    stream.message_is_whole();
    const std::lock_guard lock(peer.mutex);
    peer.early[static_cast<std::uint32_t>(header.tag)].push_back(std::move(message));
  }
}

}  // namespace pleiad

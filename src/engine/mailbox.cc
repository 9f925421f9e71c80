// send and receive between ranks of one host, through a ring buffer for each pair of ranks. A message consists of its
// tag, its length and its bytes. It is streamed through the ring, so it may be larger than the ring.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "core/kernels.h"
#include "core/text.h"
#include "engine/engine.h"
#include "engine/unexpected_messages.h"
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

// Writes to or reads from the mailbox of two ranks of this host. The caller must have access.
class Engine::MailboxStream {
 public:
  MailboxStream(Engine& engine, Call call, int from, int to)
      : engine_(engine),
        call_(call),
        from_(from),
        to_(to),
        box_(engine.control_.mailbox(engine.location(from).local, engine.location(to).local)),
        ring_(engine.control_.mailbox_bytes(engine.location(from).local, engine.location(to).local)),
        size_(engine.control_.mailbox_size()) {}
  // The rest of an aborted message cannot be told apart from the next message, so the mailbox becomes unusable.
  ~MailboxStream() {
    if (!in_message_) return;
    box_.broken.store(1);
    engine_.control_.head().mailbox.notify();
  }
  MailboxStream(const MailboxStream&) = delete;
  MailboxStream& operator=(const MailboxStream&) = delete;

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
  template <class Can, class CopyPart>
  void move(std::size_t bytes, std::atomic<std::uint64_t>& position, Can&& can, CopyPart&& part) {
    for (std::size_t done = 0; done < bytes;) {
      engine_.wait(engine_.control_.head().mailbox,
                   {.call = call_,
                    .ready = [&] { return can() > 0 || box_.broken.load() != 0; },
                    .missing = [&] { return std::vector<int>{call_ == Call::send ? to_ : from_}; }});
      if (box_.broken.load() != 0) {
        in_message_ = false;  // another call aborted the message
        throw TransportError(
            fmt::format("[rank {}] {}: a message from rank {} to rank {} was aborted midway, so no "
                        "further message can be sent",
                        engine_.rank_, name_of(call_), from_, to_));
      }
      const std::uint64_t at = position.load(std::memory_order_relaxed);
      const std::size_t length = std::min(bytes - done, static_cast<std::size_t>(can()));
      stretches(at, length, size_,
                [&](std::size_t start, std::size_t first, std::size_t count) { part(start, done + first, count); });
      position.store(at + length);
      in_message_ = true;
      engine_.control_.head().mailbox.notify();
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

// Waits for the access, or until `instead` returns true. Releases it at the end.
class Engine::AccessGuard {
 public:
  AccessGuard(Engine& engine, UnexpectedMessages::ExclusiveAccess& access, Call call, int peer,
              FunctionRef<bool()> instead)
      : access_(access) {
    const auto ready = [&] { return mine_ || instead() || (mine_ = !access_.taken.exchange(true)); };
    try {
      engine.wait(access_.moved, {.call = call, .ready = ready, .missing = [&] { return std::vector<int>{peer}; }});
    } catch (...) {
      release();
      throw;
    }
  }
  ~AccessGuard() { release(); }
  AccessGuard(const AccessGuard&) = delete;
  AccessGuard& operator=(const AccessGuard&) = delete;

  [[nodiscard]] bool mine() const { return mine_; }

 private:
  void release() {
    if (!mine_) return;
    access_.taken.store(false);
    access_.moved.notify();
  }

  UnexpectedMessages::ExclusiveAccess& access_;
  bool mine_ = false;
};

void Engine::send(int to, std::uint32_t tag, const void* data, std::size_t bytes) {
  check_usable("send");
  register_thread();
  if (to < 0 || to >= size())
    throw InvalidArgument(fmt::format("[send] {} is not a rank; the world has {} ranks", to, size()));
  const CallMark mark(*this, Call::send);
  if (location(to).host != location(rank_).host) return remote_send(to, tag, data, bytes);
  if (liveness(to) == Liveness::dead) throw TransportError(fmt::format("[rank {}] send: {} died", rank_, describe(to)));
  UnexpectedMessages::Peer& peer = unexpected_->peers[static_cast<std::size_t>(to)];
  if (to == rank_) {
    const std::lock_guard lock(peer.mutex);
    const auto* from = static_cast<const char*>(data);
    peer.unexpected[tag].emplace_back(from, from + bytes);
    return;
  }
  const AccessGuard access(*this, peer.writing, Call::send, to, [] { return false; });
  MailboxStream stream(*this, Call::send, rank_, to);
  const Header header{.bytes = bytes, .tag = tag};
  stream.write(&header, sizeof header);
  stream.write(data, bytes);
  stream.message_is_whole();
}

void Engine::receive(int from, std::uint32_t tag, void* data, std::size_t bytes) {
  check_usable("receive");
  register_thread();
  if (from < 0 || from >= size()) {
    throw InvalidArgument(fmt::format("[receive] {} is not a rank; the world has {} ranks", from, size()));
  }
  const CallMark mark(*this, Call::receive);
  if (location(from).host != location(rank_).host) return remote_receive(from, tag, data, bytes);
  UnexpectedMessages::Peer& peer = unexpected_->peers[static_cast<std::size_t>(from)];
  const auto has_message = [&] {
    const std::lock_guard lock(peer.mutex);
    return !peer.unexpected[tag].empty();
  };
  const auto take_message = [&] {
    const std::lock_guard lock(peer.mutex);
    auto& unexpected = peer.unexpected[tag];
    if (unexpected.empty()) return false;
    const std::size_t arrived = unexpected.front().size();
    if (arrived != bytes) {
      throw InvalidArgument(fmt::format("[receive] the message with tag {} from rank {} has {} bytes; expected {}", tag,
                                        from, grouped(static_cast<std::int64_t>(arrived)),
                                        grouped(static_cast<std::int64_t>(bytes))));
    }
    copy_bytes(data, unexpected.front().data(), bytes);
    unexpected.pop_front();
    return true;
  };
  while (!take_message()) {
    if (from == rank_)
      throw StateError("[receive] this rank would wait forever for a message from itself; send it first");
    // The thread that has access reads whatever arrives, also for other receivers.
    const AccessGuard access(*this, peer.reading, Call::receive, from, has_message);
    if (!access.mine() || has_message()) continue;
    MailboxStream stream(*this, Call::receive, from, rank_);
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
    peer.unexpected[static_cast<std::uint32_t>(header.tag)].push_back(std::move(message));
  }
}

}  // namespace pleiad

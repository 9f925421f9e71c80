// Between ranks of one host, messages go through a ring buffer for each pair of ranks. A message consists of its tag,
// its length and its bytes. It is streamed through the ring, so it may be larger than the ring.
#include "engine/mailbox.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "core/kernels.h"
#include "core/text.h"
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

// Writes to or reads from the ring of two ranks of this host. The caller must have access.
class Mailbox::Stream {
 public:
  Stream(const RankContext& context, Waiter& waiter, Call call, int from, int to)
      : context_(context),
        waiter_(waiter),
        call_(call),
        from_(from),
        to_(to),
        ring_(context.control.ring(context.world.location(from).local, context.world.location(to).local)),
        bytes_(context.control.ring_bytes(context.world.location(from).local, context.world.location(to).local)),
        size_(context.control.ring_size()) {}
  // The rest of an aborted message cannot be told apart from the next message, so the ring becomes unusable.
  ~Stream() {
    if (!in_message_) return;
    ring_.broken.store(1);
    context_.control.head().mailbox.notify();
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void write(const void* from, std::size_t bytes) {
    move(
        bytes, ring_.written, [&] { return size_ - (ring_.written.load() - ring_.read.load()); },
        [&](std::size_t at, std::size_t done, std::size_t length) {
          copy_bytes(bytes_ + at, static_cast<const char*>(from) + done, length);
        });
  }
  void read(void* to, std::size_t bytes) {
    move(
        bytes, ring_.read, [&] { return ring_.written.load() - ring_.read.load(); },
        [&](std::size_t at, std::size_t done, std::size_t length) {
          copy_bytes(static_cast<char*>(to) + done, bytes_ + at, length);
        });
  }
  void message_is_whole() { in_message_ = false; }

 private:
  // Moves `bytes` in parts of at most can() bytes, each with part(ring offset, bytes moved before, length).
  template <class Can, class CopyPart>
  void move(std::size_t bytes, std::atomic<std::uint64_t>& position, Can&& can, CopyPart&& part) {
    for (std::size_t done = 0; done < bytes;) {
      waiter_.wait(context_.control.head().mailbox,
                   {.call = call_,
                    .ready = [&] { return can() > 0 || ring_.broken.load() != 0; },
                    .missing = [&] { return std::vector<int>{call_ == Call::send ? to_ : from_}; }});
      if (ring_.broken.load() != 0) {
        in_message_ = false;  // another call aborted the message
        throw TransportError(
            fmt::format("[rank {}] {}: a message from rank {} to rank {} was aborted midway, so no "
                        "further message can be sent",
                        context_.world.rank(), name_of(call_), from_, to_));
      }
      const std::uint64_t at = position.load(std::memory_order_relaxed);
      const std::size_t length = std::min(bytes - done, static_cast<std::size_t>(can()));
      stretches(at, length, size_,
                [&](std::size_t start, std::size_t first, std::size_t count) { part(start, done + first, count); });
      position.store(at + length);
      in_message_ = true;
      context_.control.head().mailbox.notify();
      done += length;
    }
  }

  const RankContext& context_;
  Waiter& waiter_;
  Call call_;
  int from_;
  int to_;
  MessageRing& ring_;
  char* bytes_;
  std::size_t size_;
  bool in_message_ = false;
};

// Waits for the access, or until `instead` returns true. Releases it at the end.
class Mailbox::AccessGuard {
 public:
  AccessGuard(Waiter& waiter, UnexpectedMessages::ExclusiveAccess& access, Call call, int peer,
              FunctionRef<bool()> instead)
      : access_(access) {
    const auto ready = [&] { return mine_ || instead() || (mine_ = !access_.taken.exchange(true)); };
    try {
      waiter.wait(access_.moved, {.call = call, .ready = ready, .missing = [&] { return std::vector<int>{peer}; }});
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

Mailbox::Mailbox(RankContext& context, const Membership& members, Activity& activity, Waiter& waiter)
    : context_(context),
      members_(members),
      activity_(activity),
      waiter_(waiter),
      unexpected_(std::make_unique<UnexpectedMessages>(context.world.size())) {}

Mailbox::~Mailbox() = default;

void Mailbox::send(int to, std::uint32_t tag, const void* data, std::size_t bytes) {
  members_.check_usable("send");
  activity_.register_thread();
  const World& world = context_.world;
  if (!world.contains(to))
    throw InvalidArgument(fmt::format("[send] {} is not a rank; the world has {} ranks", to, world.size()));
  const CallMark mark(activity_, Call::send);
  if (!world.on_this_host(to)) return remote_->send(to, tag, data, bytes);
  if (members_.liveness(to) == Liveness::dead) {
    throw TransportError(fmt::format("[rank {}] send: {} died", world.rank(), members_.describe(to)));
  }
  UnexpectedMessages::Peer& peer = unexpected_->peers[static_cast<std::size_t>(to)];
  if (to == world.rank()) {
    const std::lock_guard lock(peer.mutex);
    const auto* from = static_cast<const char*>(data);
    peer.unexpected[tag].emplace_back(from, from + bytes);
    return;
  }
  const AccessGuard access(waiter_, peer.writing, Call::send, to, [] { return false; });
  Stream stream(context_, waiter_, Call::send, world.rank(), to);
  const Header header{.bytes = bytes, .tag = tag};
  stream.write(&header, sizeof header);
  stream.write(data, bytes);
  stream.message_is_whole();
}

void Mailbox::receive(int from, std::uint32_t tag, void* data, std::size_t bytes) {
  members_.check_usable("receive");
  activity_.register_thread();
  const World& world = context_.world;
  if (!world.contains(from)) {
    throw InvalidArgument(fmt::format("[receive] {} is not a rank; the world has {} ranks", from, world.size()));
  }
  const CallMark mark(activity_, Call::receive);
  if (!world.on_this_host(from)) return remote_->receive(from, tag, data, bytes);
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
    if (from == world.rank())
      throw StateError("[receive] this rank would wait forever for a message from itself; send it first");
    // The thread that has access reads whatever arrives, also for other receivers.
    const AccessGuard access(waiter_, peer.reading, Call::receive, from, has_message);
    if (!access.mine() || has_message()) continue;
    Stream stream(context_, waiter_, Call::receive, from, world.rank());
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

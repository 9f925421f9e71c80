// send and receive between ranks of one host: a ring of bytes for each pair. A message is its tag, its length and its
// bytes, streamed through the ring, so it may be larger than the ring.
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

// Calls part(ring offset, length) for the stretches that `bytes` from position `at` take in a ring of `size`.
template <class F>
void stretches(std::uint64_t at, std::size_t bytes, std::size_t size, F&& part) {
  const std::size_t start = at % size;
  const std::size_t first = std::min(bytes, size - start);
  part(start, std::size_t{0}, first);
  if (first < bytes) part(std::size_t{0}, first, bytes - first);
}

}  // namespace

void Engine::send(int to, std::uint32_t tag, const void* data, std::size_t bytes) {
  check_usable("send");
  take_part();
  if (to < 0 || to >= size())
    throw InvalidArgument(fmt::format("[send] {} is not a rank; the world has {}", to, size()));
  const CallMark mark(*this, Call::send);
  if (place(to).host != place(rank_).host) return remote_send(to, tag, data, bytes);
  if (life(to) == Life::dead) throw TransportError(fmt::format("[rank {}] send: {} died", rank_, describe(to)));
  if (to == rank_) {
    Inbox::Peer& peer = inbox_->peers[static_cast<std::size_t>(to)];
    const std::lock_guard lock(peer.receiving);
    const auto* from = static_cast<const char*>(data);
    peer.early[tag].emplace_back(from, from + bytes);
    return;
  }
  const std::lock_guard lock(inbox_->peers[static_cast<std::size_t>(to)].sending);
  Mailbox& box = control_.mailbox(place(rank_).local, place(to).local);
  char* ring = control_.mailbox_bytes(place(rank_).local, place(to).local);
  const std::size_t ring_size = control_.mailbox_size();
  const auto write = [&](const char* from, std::size_t left) {
    while (left > 0) {
      const std::uint64_t written = box.written.load(std::memory_order_relaxed);
      const auto room = [&] { return ring_size - (written - box.read.load()); };
      wait(control_.head().mail,
           {.call = Call::send, .ready = [&] { return room() > 0; }, .missing = [&] { return std::vector<int>{to}; }});
      const std::size_t part = std::min(left, static_cast<std::size_t>(room()));
      stretches(written, part, ring_size, [&](std::size_t at, std::size_t done, std::size_t length) {
        copy_bytes(ring + at, from + done, length);
      });
      box.written.store(written + part);
      control_.head().mail.notify();
      from += part;
      left -= part;
    }
  };
  const Header header{.bytes = bytes, .tag = tag};
  write(reinterpret_cast<const char*>(&header), sizeof header);
  write(static_cast<const char*>(data), bytes);
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
  const auto check_size = [&](std::size_t came) {
    if (came == bytes) return;
    throw InvalidArgument(fmt::format("[receive] the message with tag {} from rank {} has {} bytes; expected {}", tag,
                                      from, grouped(static_cast<std::int64_t>(came)),
                                      grouped(static_cast<std::int64_t>(bytes))));
  };
  const std::lock_guard lock(peer.receiving);
  Mailbox& box = control_.mailbox(place(from).local, place(rank_).local);
  const char* ring = control_.mailbox_bytes(place(from).local, place(rank_).local);
  const std::size_t ring_size = control_.mailbox_size();
  const auto read = [&](char* to, std::size_t left) {
    while (left > 0) {
      const std::uint64_t done_before = box.read.load(std::memory_order_relaxed);
      const auto there = [&] { return box.written.load() - done_before; };
      wait(control_.head().mail, {.call = Call::receive,
                                  .ready = [&] { return there() > 0; },
                                  .missing = [&] { return std::vector<int>{from}; }});
      const std::size_t part = std::min(left, static_cast<std::size_t>(there()));
      stretches(done_before, part, ring_size, [&](std::size_t at, std::size_t done, std::size_t length) {
        copy_bytes(to + done, ring + at, length);
      });
      box.read.store(done_before + part);
      control_.head().mail.notify();
      to += part;
      left -= part;
    }
  };
  auto& early = peer.early[tag];
  while (early.empty()) {
    if (from == rank_) throw StateError("[receive] this rank waits for a message from itself that it has not sent");
    Header header{};
    read(reinterpret_cast<char*>(&header), sizeof header);
    if (header.tag == tag && header.bytes == bytes) {
      read(static_cast<char*>(data), bytes);
      return;
    }
    std::vector<char> message(header.bytes);
    read(message.data(), message.size());
    peer.early[static_cast<std::uint32_t>(header.tag)].push_back(std::move(message));
  }
  check_size(early.front().size());
  copy_bytes(data, early.front().data(), bytes);
  early.pop_front();
}

}  // namespace pleiad

#include "engine/rpc_connection.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "core/clones.h"
#include "core/kernels.h"
#include "core/process.h"
#include "engine/listener.h"
#include "engine/rpc_transport.h"

namespace pleiad {

void set_up_socket(zmq::socket_t& socket) {
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::heartbeat_ivl, 1000);
  socket.set(zmq::sockopt::heartbeat_timeout, 3000);
  socket.set(zmq::sockopt::heartbeat_ttl, 5000);
  socket.set(zmq::sockopt::connect_timeout, 2000);
  socket.set(zmq::sockopt::reconnect_ivl, 100);
  socket.set(zmq::sockopt::reconnect_ivl_max, 1000);
  socket.set(zmq::sockopt::handshake_ivl, Listener::kHandshakeMs);
  socket.set(zmq::sockopt::maxmsgsize, kMaxPartBytes);
}

int await(std::vector<zmq::pollitem_t>& items, std::int64_t ns) {
  constexpr std::int64_t kMoment = 100'000;
  const std::int64_t asleep_from = now_ns() + std::min(kMoment, ns);
  do {
    if (const int ready = zmq::poll(items, std::chrono::milliseconds(0)); ready > 0) return ready;
    sched_yield();
  } while (now_ns() < asleep_from);
  return zmq::poll(items, std::chrono::milliseconds(ns / 1'000'000));
}

namespace {

// ThreadSanitizer does not see the synchronisation between ZeroMQ's threads and would report the next use of shared
// memory as a race.
#if defined(PLEIAD_THREAD_SANITIZER)
constexpr bool kSharesMemory = false;
#else
constexpr bool kSharesMemory = true;
#endif

}  // namespace

struct FramePool::Block {
  FramePool* pool;
  alignas(64) char bytes[kMax];
};

FramePool::~FramePool() {
  for (const Block* block : idle_) delete block;
}

zmq::message_t FramePool::take(std::size_t bytes) {
  Block* block = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      block = idle_.back();
      idle_.pop_back();
    }
  }
  if (block == nullptr) {
    block = new Block;
    block->pool = this;
  }
  const auto give_back = [](void*, void* hint) {
    auto* done = static_cast<Block*>(hint);
    FramePool& pool = *done->pool;
    {
      const std::lock_guard lock(pool.mutex_);
      if (pool.idle_.size() < kKept) {
        pool.idle_.push_back(done);
        return;
      }
    }
    delete done;
  };
  return {block->bytes, bytes, give_back, block};
}

zmq::message_t make_frame(const FrameHead& head, std::size_t bytes, FramePool* pool) {
  const std::size_t all = sizeof head + bytes;
  const bool pooled = kSharesMemory && pool != nullptr && all >= FramePool::kMin && all <= FramePool::kMax;
  zmq::message_t frame = pooled ? pool->take(all) : zmq::message_t(all);
  std::memcpy(frame.data(), &head, sizeof head);
  return frame;
}

std::span<char> body_of(zmq::message_t& frame) {
  return std::span(frame.data<char>(), frame.size()).subspan(sizeof(FrameHead));
}

bool send_frame(zmq::socket_t& socket, zmq::message_t& frame) {
  if (frame.size() <= kPartBytes) return socket.send(frame, zmq::send_flags::dontwait).has_value();
  // The parts share the frame's memory. The last part that is released frees it.
  const auto whole = std::make_shared<zmq::message_t>(std::move(frame));
  const auto release = [](void*, void* hint) { delete static_cast<std::shared_ptr<zmq::message_t>*>(hint); };
  for (std::size_t at = 0; at < whole->size(); at += kPartBytes) {
    const std::size_t bytes = std::min(kPartBytes, whole->size() - at);
    char* const from = whole->data<char>() + at;
    zmq::message_t part =
        kSharesMemory ? zmq::message_t(from, bytes, release, new std::shared_ptr(whole)) : zmq::message_t(from, bytes);
    const bool last = at + bytes == whole->size();
    const auto flags = last ? zmq::send_flags::dontwait : zmq::send_flags::dontwait | zmq::send_flags::sndmore;
    if (!socket.send(part, flags).has_value()) return false;  // only the first part can fail because of a full queue
  }
  return true;
}

bool receive_frame(zmq::socket_t& socket, zmq::message_t& frame, std::size_t most) {
  if (!socket.recv(frame, zmq::recv_flags::dontwait).has_value()) return false;
  if (!frame.more()) return true;
  std::vector<zmq::message_t> parts;
  std::size_t bytes = frame.size();
  bool more = true;
  parts.push_back(std::move(frame));
  while (more) {  // ZeroMQ delivers a message only when all its parts have arrived
    zmq::message_t part;
    if (!socket.recv(part, zmq::recv_flags::dontwait).has_value()) break;
    more = part.more();
    bytes += part.size();
    if (bytes <= most) parts.push_back(std::move(part));
  }
  frame.rebuild(bytes <= most ? bytes : 0);
  if (bytes > most) return true;
  char* to = frame.data<char>();
  for (zmq::message_t& part : parts) {
    copy_bytes(to, part.data(), part.size());
    to += part.size();
  }
  return true;
}

RpcConnection::RpcConnection(zmq::context_t& context, const JobKey& key, int rank, int to, std::string endpoint,
                             const TransportKeys* keys)
    : key_(key),
      rank_(rank),
      to_(to),
      endpoint_(std::move(endpoint)),
      socket_(context, zmq::socket_type::dealer),
      id_(random_number()) {
  set_up_socket(socket_);
  if (keys != nullptr) keys->make_client(socket_);
  socket_.connect(endpoint_);
}

FrameHead RpcConnection::head(FrameKind kind) const {
  FrameHead head;
  head.kind = kind;
  head.rank = rank_;
  head.connection = id_;
  head.epoch = epoch_;
  return head;
}

void RpcConnection::send_hello(std::int64_t now) {
  constexpr std::int64_t kAgain = 1'000'000'000;
  if (authenticated_ || (hello_sent_ != 0 && now - hello_sent_ < kAgain)) return;
  hello_sent_ = now;
  nonce_ = random_nonce();
  zmq::message_t hello = make_frame(head(FrameKind::hello), nonce_.size());
  std::memcpy(body_of(hello).data(), nonce_.data(), nonce_.size());
  (void)send(hello);
}

bool RpcConnection::send(zmq::message_t& frame) { return send_frame(socket_, frame); }

std::optional<ReceivedFrame> RpcConnection::receive() {
  for (;;) {
    ReceivedFrame incoming;
    if (!receive_frame(socket_, incoming.message, RpcTransport::kMaxBytes)) return std::nullopt;
    const auto frame = parse_frame({incoming.message.data<char>(), incoming.message.size()});
    if (!frame || frame->head.connection != id_) continue;
    incoming.frame = *frame;
    switch (frame->head.kind) {
      case FrameKind::challenge: answer_challenge(*frame); continue;
      case FrameKind::accepted:
        if (authenticated_ || !server_authenticated_) continue;
        authenticated_ = true;
        ++epoch_;
        continue;
      case FrameKind::unauthenticated:
        if (frame->head.epoch != epoch_)
          return incoming;  // from an older connection: only the request that it names is lost
        authenticated_ = false;
        server_authenticated_ = false;
        hello_sent_ = 0;
        continue;
      case FrameKind::reply:
      case FrameKind::waiting:
      case FrameKind::pong:
      case FrameKind::heartbeat_reply: return incoming;
      default: continue;
    }
  }
}

void RpcConnection::answer_challenge(const Frame& challenge) {
  Nonce mine;
  Nonce theirs;
  AuthTag tag;
  if (challenge.body.size() != mine.size() + theirs.size() + tag.size()) return;
  const char* at = challenge.body.data();
  std::memcpy(mine.data(), at, mine.size());
  std::memcpy(theirs.data(), at + mine.size(), theirs.size());
  std::memcpy(tag.data(), at + mine.size() + theirs.size(), tag.size());
  // Ignores replies to an older hello, and servers that do not know the key.
  if (mine != nonce_ || !equal(tag, make_auth_tag(key_, "server", mine, theirs, rank_, to_))) return;
  server_authenticated_ = true;
  const AuthTag answer = make_auth_tag(key_, "client", mine, theirs, rank_, to_);
  zmq::message_t frame = make_frame(head(FrameKind::response), mine.size() + answer.size());
  std::memcpy(body_of(frame).data(), mine.data(), mine.size());
  std::memcpy(body_of(frame).data() + mine.size(), answer.data(), answer.size());
  (void)send(frame);
}

}  // namespace pleiad

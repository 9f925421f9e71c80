// Executes requests, each exactly once even if it arrives several times, and sends the replies.
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "engine/lock.h"
#include "engine/rpc_server.h"

namespace pleiad {

namespace {

constexpr std::size_t kMaxClients = 8192;

}  // namespace

RpcTransport::Server::Client& RpcTransport::Server::client_of(const FrameHead& head) {
  const ClientName name{head.rank, head.connection};
  const auto [found, fresh] = clients_.try_emplace(name);
  if (fresh) {
    client_order_.push_back(name);
    if (client_order_.size() > kMaxClients) {
      clients_.erase(client_order_.front());
      client_order_.pop_front();
    }
  }
  return found->second;
}

RpcTransport::Server::Client::Entry* RpcTransport::Server::entry_of(const FrameHead& head) {
  const auto client = clients_.find({head.rank, head.connection});
  if (client == clients_.end()) return nullptr;
  Client::Entry& entry = client->second.entry(head.sequence);
  return entry.sequence == head.sequence ? &entry : nullptr;
}

void RpcTransport::Server::handle_request(LeaderLock& leader_lock, const std::string& connection, const Frame& frame) {
  const FrameHead& head = frame.head;
  Client& client = client_of(head);
  // The client received the reply to this request long ago, so this is a replayed frame.
  if (head.sequence == 0 || head.sequence + Client::kRemembered <= client.highest) return;
  client.highest = std::max(client.highest, head.sequence);
  Client::Entry& entry = client.entry(head.sequence);
  if (entry.sequence != head.sequence) entry = {.sequence = head.sequence, .state = {}, .problem = {}, .retry = {}};

  ReturnAddress back{.connection = connection, .head = head};
  if (entry.state == Client::State::done && entry.problem) return answer(back, &*entry.problem);
  if (entry.state == Client::State::executing) {
    entry.retry = std::move(back);
    return;
  }
  IncomingRequest request{.from = head.rank,
                          .operation = head.operation,
                          .repeated = entry.state != Client::State::unknown,
                          .body = frame.body,
                          .back = back};
  thread_local std::vector<std::uint64_t> aligned;
  if (reinterpret_cast<std::uintptr_t>(frame.body.data()) % sizeof(std::uint64_t) != 0) {
    // Small messages are unaligned in their buffer, but values must be aligned.
    aligned.resize(frame.body.size() / sizeof(std::uint64_t) + 1);
    if (!frame.body.empty()) std::memcpy(aligned.data(), frame.body.data(), frame.body.size());
    request.body = {reinterpret_cast<const char*>(aligned.data()), frame.body.size()};
  }
  const bool was_done = entry.state == Client::State::done;
  entry.state = Client::State::executing;
  zmq::message_t reply;
  bool has_reply = false;
  const auto room = [&](std::size_t bytes) {
    reply = reply_to(head, FrameKind::reply, bytes);
    has_reply = true;
    return body_of(reply);
  };
  bool delegated = false;
  const auto delegate = [&](int holder) {
    const std::int32_t waits_for = holder;
    report_waiting(back, {&waits_for, 1});
    delegated = delegate_leadership();
    if (delegated) leader_lock.unlock();
  };
  bool answered = true;
  std::optional<Problem> problem;
  try {
    const FunctionRef<void(int)> call(delegate);
    const LongLockWait lock_wait(call);
    const std::shared_lock lock(handler_mutex_);
    if (handler_ == nullptr)
      throw TransportError(fmt::format("{} has ended its session", rpc_.members_.describe(world_.rank())));
    answered = handler_->handle(request, room);
  } catch (const RankKilled&) {
    throw;
  } catch (...) {
    problem = Problem::current();
  }
  if (delegated) regain_leadership(leader_lock);
  // Meanwhile the client may have been forgotten, or may have reconnected and repeated the request.
  if (Client::Entry* now = entry_of(head)) {
    now->state = answered || was_done ? Client::State::done : Client::State::deferred;
    if (now->retry) back = *std::exchange(now->retry, std::nullopt);
  }
  if (problem) {
    answer(back, &*problem);
  } else if (answered) {
    if (!has_reply) reply = reply_to(head, FrameKind::reply, 0);
    send(back.connection, reply);
  }
  if (delegated) release_leadership();
}

void RpcTransport::Server::answer(const ReturnAddress& back, const Problem* problem, std::span<const char> body) {
  if (Client::Entry* entry = entry_of(back.head)) {
    entry->state = Client::State::done;
    if (problem != nullptr && !entry->problem) entry->problem = *problem;
  }
  if (problem != nullptr) body = problem->text;
  zmq::message_t reply = reply_to(back.head, FrameKind::reply, body.size());
  if (!body.empty()) std::memcpy(body_of(reply).data(), body.data(), body.size());
  if (problem != nullptr) {
    const auto status = static_cast<std::uint16_t>(problem->kind);
    std::memcpy(reply.data<char>() + offsetof(FrameHead, status), &status, sizeof status);
  }
  send(back.connection, reply);
}

void RpcTransport::Server::report_waiting(const ReturnAddress& back, std::span<const std::int32_t> ranks) {
  zmq::message_t frame = reply_to(back.head, FrameKind::waiting, ranks.size_bytes());
  if (!ranks.empty()) std::memcpy(body_of(frame).data(), ranks.data(), ranks.size_bytes());
  send(back.connection, frame);
}

}  // namespace pleiad

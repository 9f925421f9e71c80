// Messages from one rank to another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/activity.h"
#include "engine/membership.h"
#include "engine/rank_context.h"
#include "engine/remote_operations.h"
#include "engine/waiter.h"

namespace pleiad {

struct UnexpectedMessages;

/// Any thread may send and receive.
class Mailbox {
 public:
  Mailbox(RankContext& context, const Membership& members, Activity& activity, Waiter& waiter);
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  /// Returns when the caller may change `data`. Messages with the same sender and tag arrive in order.
  void send(int to, std::uint32_t tag, const void* data, std::size_t bytes);
  /// Receives one message. Throws InvalidArgument if the message does not have exactly `bytes` bytes; the message then
  /// stays available.
  void receive(int from, std::uint32_t tag, void* data, std::size_t bytes);

  // For the engine.
  void connect(RemoteOperations& remote) { remote_ = &remote; }

 private:
  class Stream;
  class AccessGuard;

  const RankContext& context_;
  const Membership& members_;
  Activity& activity_;
  Waiter& waiter_;
  RemoteOperations* remote_ = nullptr;
  std::unique_ptr<UnexpectedMessages> unexpected_;
};

}  // namespace pleiad

// The engine of one rank: it joins a world and owns the parts through which code above uses it.
#pragma once

#include <memory>

#include "core/log.h"
#include "engine/activity.h"
#include "engine/collectives.h"
#include "engine/control.h"
#include "engine/hooks.h"
#include "engine/mailbox.h"
#include "engine/membership.h"
#include "engine/order_failure.h"
#include "engine/rank_context.h"
#include "engine/remote_operations.h"
#include "engine/shared_segments.h"
#include "engine/waiter.h"
#include "engine/world.h"
#include "pleiad/options.h"

namespace pleiad {

struct JobKey;
class RpcTransport;

/// One rank's view of a world, in parts. Each part's header has its contract. Code that needs one part takes a
/// reference to this part.
class Engine {
 public:
  virtual ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Which ranks there are, and on which hosts.
  [[nodiscard]] const World& world() const { return context_.world; }
  /// Which ranks are alive, dead or left.
  [[nodiscard]] Membership& members() { return members_; }
  [[nodiscard]] const Membership& members() const { return members_; }
  /// The failure that ends the ordered calls of all ranks.
  [[nodiscard]] OrderFailure& order_failure() { return order_failure_; }
  /// The record of what this rank is doing, for reports and for the detection of deadlocks.
  [[nodiscard]] Activity& activity() { return activity_; }
  /// The waits for other ranks.
  [[nodiscard]] Waiter& waiter() { return waiter_; }
  /// Calls that all ranks make together.
  [[nodiscard]] Collectives& collectives() { return collectives_; }
  /// Messages from one rank to another.
  [[nodiscard]] Mailbox& mailbox() { return mailbox_; }
  /// Memory that the ranks of a host share.
  [[nodiscard]] SharedSegments& segments() { return segments_; }
  /// The requests to processes of other hosts; null if the world has one host.
  [[nodiscard]] RpcTransport* rpc() const { return rpc_.get(); }
  /// The points at which a test stops or kills this rank.
  [[nodiscard]] RankHooks& hooks() { return context_.hooks; }

  [[nodiscard]] EngineKind kind() const { return context_.kind; }
  [[nodiscard]] const Control& control() const { return context_.control; }
  [[nodiscard]] const Log& log() const { return context_.log; }
  [[nodiscard]] const SessionOptions& options() const { return context_.options; }

  /// Leaves the world cleanly and waits for the other ranks to leave.
  void leave();

 protected:
  /// `source` must outlive the engine's last call of segments().
  Engine(EngineKind kind, SessionOptions options, World world, std::shared_ptr<Segment> control_memory, Hooks* hooks,
         SegmentSource& source);
  // Connect the parts with other hosts. A world on one host needs neither.
  void connect(std::unique_ptr<RemoteOperations> remote);
  /// See RpcTransport's constructor.
  RpcTransport& open_rpc(const JobKey& key, bool loopback);
  /// In a forked child: leaves the threads and sockets of the transport to the parent.
  void release_rpc_to_parent();
  /// Called after the rank has left its world. `clean` is true if all other ranks of this host have left too and none
  /// died.
  virtual void after_leave(bool /*clean*/) {}

  [[nodiscard]] RankContext& context() { return context_; }

 private:
  RankContext context_;
  Membership members_;
  OrderFailure order_failure_;
  Activity activity_;
  Waiter waiter_;
  Collectives collectives_;
  Mailbox mailbox_;
  SharedSegments segments_;
  std::unique_ptr<RemoteOperations> remote_;
  std::unique_ptr<RpcTransport> rpc_;
};

}  // namespace pleiad

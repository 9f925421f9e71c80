#include "engine/engine.h"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "engine/rpc_transport.h"
#include "pleiad/error.h"

namespace pleiad {

Engine::Engine(EngineKind kind, SessionOptions options, World world, std::shared_ptr<Segment> control_memory,
               Hooks* hooks, SegmentSource& source)
    : context_(kind, std::move(options), std::move(world), std::move(control_memory), hooks),
      members_(context_),
      order_failure_(context_.control, members_),
      activity_(context_, members_),
      waiter_(context_, members_, order_failure_, activity_),
      collectives_(context_, members_, order_failure_, activity_, waiter_),
      mailbox_(context_, members_, activity_, waiter_),
      segments_(context_, members_, collectives_, source) {}

Engine::~Engine() = default;

void Engine::connect(std::unique_ptr<RemoteOperations> remote) {
  remote_ = std::move(remote);
  collectives_.connect(*remote_);
  mailbox_.connect(*remote_);
}

RpcTransport& Engine::open_rpc(const JobKey& key, bool loopback) {
  rpc_ = std::make_unique<RpcTransport>(*this, key, loopback);
  members_.connect(*rpc_);
  return *rpc_;
}

void Engine::release_rpc_to_parent() {
  if (rpc_ != nullptr) rpc_->release_to_parent();
  (void)rpc_.release();
}

void Engine::leave() {
  members_.check_usable("shutdown");
  const CallMark mark(activity_, Call::shutdown);
  members_.announce_leaving();
  const auto missing = [&] {
    std::vector<int> ranks;
    for (const int r : world().neighbours()) {
      if (members_.liveness(r) == Liveness::alive) ranks.push_back(r);
    }
    return ranks;
  };
  // An order failure must not prevent the shutdown, so the wait is not ordered.
  try {
    waiter_.wait(
        control().head().liveness,
        {.call = Call::shutdown, .ready = [&] { return missing().empty(); }, .missing = missing, .ordered = false});
    members_.set_left();
    for (int r = 0; r < world().size(); ++r) {
      if (members_.liveness(r) == Liveness::dead) {
        throw TransportError(fmt::format("[rank {}] shutdown: the session ended without {}, which died", world().rank(),
                                         members_.describe(r)));
      }
    }
    if (!world().one_host()) collectives_.leave_hosts();
  } catch (...) {
    members_.set_left();
    after_leave(false);
    throw;
  }
  after_leave(true);
}

}  // namespace pleiad

#include "engine/membership.h"

#include <unistd.h>

#include <fmt/format.h>

#include "core/process.h"
#include "engine/rpc_transport.h"
#include "pleiad/error.h"

namespace pleiad {

Membership::Membership(const RankContext& context) : context_(context), made_in_generation_(fork_generation()) {}

Liveness Membership::liveness(int rank) const {
  if (!context_.world.on_this_host(rank)) return rpc_ == nullptr ? Liveness::alive : rpc_->liveness(rank);
  return context_.slot(rank).liveness.load();
}

bool Membership::has_ended(int rank) const {
  const RankSlot& slot = context_.slot(rank);
  return slot.process_ended.load() != 0 || slot.liveness.load() == Liveness::dead;
}

double Membership::silence(int rank) const {
  if (rpc_ == nullptr || context_.world.on_this_host(rank)) return 0;
  return rpc_->silence(context_.world.location(rank).host);
}

std::string Membership::describe(int rank) const {
  const RankLocation& where = context_.world.location(rank);
  if (!context_.world.on_this_host(rank)) return fmt::format("rank {} (on {})", rank, where.name);
  return fmt::format("rank {} (pid {} on {})", rank, context_.slot(rank).pid.load(), where.name);
}

bool Membership::in_forked_child() const { return made_in_generation_ != fork_generation(); }

void Membership::check_usable(std::string_view where) const {
  if (in_forked_child()) {
    throw StateError(
        fmt::format("[{}] this process was forked from rank {}: it is not a rank and cannot use its tables", where,
                    context_.world.rank()));
  }
  if (has_left()) throw StateError(fmt::format("[{}] the session was shut down", where));
}

void Membership::abandon(Liveness liveness) {
  if (in_forked_child() || left_.exchange(true)) return;
  context_.self().liveness.store(liveness);
  announce_change();
}

void Membership::announce_alive() {
  context_.self().pid.store(static_cast<std::int32_t>(getpid()));
  context_.self().liveness.store(Liveness::alive);
  context_.control.head().liveness.notify();
}

void Membership::announce_leaving() {
  context_.self().liveness.store(Liveness::left);
  announce_change();
}

void Membership::mark_process_ended(int rank) {
  RankSlot& slot = context_.slot(rank);
  slot.process_ended.store(1);
  const Liveness liveness = slot.liveness.load();
  if (liveness == Liveness::dead || liveness == Liveness::left) return;
  slot.liveness.store(Liveness::dead);
  announce_change();
}

void Membership::wake_all() const {
  ControlHead& head = context_.control.head();
  for (Event* event : {&head.liveness, &head.collective, &head.mailbox, &head.calls}) event->notify();
}

void Membership::announce_change() const {
  wake_all();
  if (rpc_ != nullptr) rpc_->notify_change();
}

}  // namespace pleiad

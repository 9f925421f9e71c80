#include "engine/collective_steps.h"

#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/text.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {

std::string describe_collective(const CollectiveSignature& signature) {
  const Call call = call_of(signature);
  if (call == Call::barrier) return std::string(name_of(call));
  const std::uint64_t detail = signature.what >> 8;
  return fmt::format("{} of {} bytes{}", name_of(call), grouped(static_cast<std::int64_t>(signature.bytes)),
                     detail != 0 ? fmt::format(" (type, operation, root or tag {:#x})", detail) : "");
}

}  // namespace

void check_same_collective(const RankContext& context, const Membership& members, OrderFailure& failure, int rank,
                           const CollectiveSignature& theirs, const CollectiveSignature& mine) {
  if (theirs == mine) return;
  throw OrderError(failure.record(fmt::format("ranks called different collectives: {} called {}, {} called {}",
                                              members.describe(rank), describe_collective(theirs),
                                              members.describe(context.world.rank()), describe_collective(mine))));
}

void CollectiveSteps::begin(const CollectiveSignature& mine) {
  failure_.check();
  context_.hooks.at(Point::collective);
  CollectiveSlot& slot = context_.control.collective(context_.world.here().local);
  const std::size_t parity = (step_ + 1) % 2;
  slot.what[parity].store(mine.what, std::memory_order_relaxed);
  slot.bytes[parity].store(mine.bytes, std::memory_order_relaxed);
}

void CollectiveSteps::contribute(std::uint64_t number) {
  CollectiveSlot& slot = context_.control.collective(context_.world.here().local);
  slot.number[(step_ + 1) % 2].store(number, std::memory_order_relaxed);
}

std::uint64_t CollectiveSteps::contribution(int local) const {
  return context_.control.collective(local).number[step_ % 2].load(std::memory_order_relaxed);
}

std::uint64_t CollectiveSteps::arrive() {
  context_.control.collective(context_.world.here().local).arrived.store(++step_);
  context_.control.head().collective.notify();
  return step_;
}

void CollectiveSteps::await(std::uint64_t step, Call call) {
  const int ranks = context_.world.local_ranks();
  const auto behind = [&](int local) {
    return context_.control.collective(local).arrived.load(std::memory_order_acquire) < step;
  };
  const auto ready = [&] {
    for (int local = 0; local < ranks; ++local) {
      if (behind(local)) return false;
    }
    return true;
  };
  const auto missing = [&] {
    std::vector<int> missing_ranks;
    for (int local = 0; local < ranks; ++local) {
      if (behind(local)) missing_ranks.push_back(context_.world.world_rank(local));
    }
    return missing_ranks;
  };
  waiter_.wait(context_.control.head().collective, {.call = call, .ready = ready, .missing = missing, .in_step = true});
}

bool CollectiveSteps::arrive_and_check(const CollectiveSignature& mine) {
  const std::uint64_t step = arrive();
  await(step, call_of(mine));
  bool refused = false;
  for (int local = 0; local < context_.world.local_ranks(); ++local) {
    const CollectiveSlot& slot = context_.control.collective(local);
    CollectiveSignature theirs{.what = slot.what[step % 2].load(std::memory_order_relaxed),
                               .bytes = slot.bytes[step % 2].load(std::memory_order_relaxed)};
    CollectiveSignature same = mine;
    if (((theirs.what | mine.what) & kRefused) != 0) {  // the rest of a refusal says nothing
      refused = true;
      theirs = signature_of(call_of(theirs), 0, 0);
      same = signature_of(call_of(mine), 0, 0);
    }
    check_same_collective(context_, members_, failure_, context_.world.world_rank(local), theirs, same);
  }
  return !refused;
}

}  // namespace pleiad

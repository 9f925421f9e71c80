#include "table/combiner.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "core/kernels.h"
#include "core/process.h"
#include "engine/lock.h"
#include "engine/segment.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {

bool same(const Rates& a, const Rates& b) {
  return a.learning_rate == b.learning_rate && a.momentum == b.momentum && a.rho == b.rho && a.lambda == b.lambda;
}

// Two slots per chunk of a run: one collects deltas while the other is being sent.
constexpr std::size_t kTurns = 2;

}  // namespace

Combiner::Combiner(Engine& engine, DType dtype, std::size_t chunks, std::size_t chunk_bytes, bool rounds, int workers)
    : engine_(engine),
      dtype_(dtype),
      width_(size_of(dtype)),
      classes_(std::min(chunks, kRun)),
      chunk_bytes_(round_to_pages(chunk_bytes)),
      rounds_(rounds),
      workers_(workers) {
  static_assert(std::is_trivially_destructible_v<Slot>);
  const std::size_t slots = classes_ * kTurns;
  // A slot and an event start as zeros.
  segment_ =
      engine_.segments().share(round_to_pages(slots * sizeof(Slot) + sizeof(Event)) + slots * chunk_bytes_, false);
}

char* Combiner::sum(std::size_t index) const {
  return static_cast<char*>(segment_->data()) + round_to_pages(classes_ * kTurns * sizeof(Slot) + sizeof(Event)) +
         index * chunk_bytes_;
}

Event& Combiner::moved() const {
  return *reinterpret_cast<Event*>(static_cast<char*>(segment_->data()) + classes_ * kTurns * sizeof(Slot));
}

// Removes ranks that died, which will not pick up their results.
void Combiner::reap(Slot& slot) const {
  for (int local = 0; local < engine_.world().local_ranks(); ++local) {
    const std::uint64_t bit = std::uint64_t{1} << static_cast<unsigned>(local);
    if ((slot.members & bit) != 0 && engine_.members().has_ended(engine_.world().world_rank(local)))
      slot.members &= ~bit;
  }
  const State state = slot.state.load();
  const bool ended = state == State::done || state == State::failed ||
                     (state != State::free && engine_.members().has_ended(slot.leader));
  if (ended && slot.members == 0) slot.state.store(State::free);
}

void Combiner::end(Slot& slot, const Problem* problem) const {
  const SharedLock lock(engine_, slot.lock);
  const Problem torn{
      .kind = ErrorKind::transport,
      .text = "add: another rank of this host died while it combined its add with this one, so this add was not sent"};
  if (slot.torn != 0 && problem == nullptr) problem = &torn;
  if (problem != nullptr) {
    slot.kind = problem->kind;
    const std::size_t length = std::min(problem->text.size(), sizeof slot.problem - 1);
    std::memcpy(slot.problem, problem->text.data(), length);
    slot.problem[length] = 0;
  }
  slot.state.store(problem == nullptr ? State::done : State::failed);
  reap(slot);
}

Combiner::Call::Call(Combiner& combiner, const Requester& requester, const Rates& rates)
    : combiner_(combiner), engine_(combiner.engine_), requester_(requester), rates_(rates) {}

Combiner::Call::~Call() {
  if (engine_.hooks().killed()) return;
  try {
    const Problem problem =
        failure_.value_or(Problem{.kind = ErrorKind::transport,
                                  .text = fmt::format("add: {}, which sends the adds of this host, was stopped by an "
                                                      "error; this add may have taken effect in part",
                                                      engine_.members().describe(engine_.world().rank()))});
    for (const LedSlot& one : led_) combiner_.end(combiner_.slot(one.slot), &problem);
    for (const JoinedSlot& one : joined_) pick_up(one.slot);
    if (!led_.empty()) combiner_.moved().notify();
    // NOLINT(bugprone-empty-catch): the lock of a stopped rank, which has reported its own error
  } catch (const std::exception&) {
  }
}

bool Combiner::Call::join(std::size_t chunk, FunctionRef<void(char* sum, bool fresh)> put) {
  const auto here = static_cast<unsigned>(engine_.world().here().local);
  const std::uint64_t bit = std::uint64_t{1} << here;
  const std::size_t first = chunk % combiner_.classes_ * kTurns;
  for (const bool leads : {false, true}) {
    for (std::size_t index = first; index < first + kTurns; ++index) {
      Slot& slot = combiner_.slot(index);
      const SharedLock lock(engine_, slot.lock);
      if (lock.taken_over()) slot.torn = 1;
      combiner_.reap(slot);
      if (leads) {
        if (slot.state.load() != State::free) continue;
        slot.leader = engine_.world().rank();
        slot.worker = requester_.worker;
        slot.rates = slot.lowest_rates = rates_;
        slot.chunk = chunk;
        slot.round = requester_.round;
        slot.members = 0;
        slot.joined.store(0);
        slot.filled = slot.torn = 0;
        slot.state.store(State::open);
        led_.push_back({.chunk = chunk, .slot = index});
        return false;
      }
      if (slot.state.load() != State::open || slot.chunk != chunk || slot.round != requester_.round || slot.torn != 0 ||
          (slot.members & bit) != 0 || slot.leader == engine_.world().rank() ||
          engine_.members().liveness(slot.leader) == Liveness::dead) {
        continue;
      }
      if (!combiner_.rounds_ && !same(slot.rates, rates_)) continue;
      engine_.hooks().at(Point::combine);
      put(combiner_.sum(index), slot.filled == 0);
      slot.filled = 1;
      if (requester_.worker < slot.worker) {
        slot.worker = requester_.worker;
        slot.lowest_rates = rates_;
      }
      slot.members |= bit;
      slot.joined.fetch_add(1);
      joined_.push_back({.slot = index, .leader = slot.leader});
      combiner_.combined_.fetch_add(1, std::memory_order_relaxed);
      return true;
    }
  }
  return false;
}

// With rounds: returns true if all workers of this host have joined. Otherwise: returns true if no other rank's add to
// these chunks is being sent. While one is, later adds may as well be combined.
bool Combiner::Call::all_here() const {
  return std::ranges::all_of(led_, [&](const LedSlot& one) {
    if (combiner_.rounds_) {
      return static_cast<int>(combiner_.slot(one.slot).joined.load()) + 1 >= combiner_.workers_;
    }
    const Slot& twin = combiner_.slot(one.slot ^ 1);
    return twin.state.load() != State::closed;
  });
}

void Combiner::Call::gather(std::size_t bytes) {
  if (led_.empty()) return;
  combiner_.moved().notify();
  // About as long as sending takes, so an add takes at most twice its time.
  const std::int64_t patience = std::min<std::int64_t>(200'000 + static_cast<std::int64_t>(bytes), 20'000'000);
  const std::int64_t until = now_ns() + patience;
  for (int spins = 1; !all_here() && now_ns() < until; ++spins) {
    if (spins < 64) {
      engine_.waiter().relax(spins);
      continue;
    }
    Event& event = combiner_.moved();
    event.sleepers.fetch_add(1);
    const std::uint32_t generation = event.generation.load();
    if (!all_here()) futex_wait(event.generation, generation, std::max<std::int64_t>(1, until - now_ns()));
    event.sleepers.fetch_sub(1);
  }
}

std::optional<std::size_t> Combiner::Call::led(std::size_t chunk) const {
  const auto found = std::ranges::find(led_, chunk, &LedSlot::chunk);
  return found == led_.end() ? std::nullopt : std::optional(found->slot);
}

void Combiner::Call::close(std::size_t chunk, std::span<char> delta, Requester& requester, Rates& rates) {
  const auto index = led(chunk);
  if (!index) return;
  Slot& slot = combiner_.slot(*index);
  const SharedLock lock(engine_, slot.lock);
  if (lock.taken_over()) slot.torn = 1;
  slot.state.store(State::closed);
  engine_.hooks().at(Point::combine);
  if (slot.torn != 0 || slot.filled == 0) return;
  add_to(combiner_.dtype_, delta.data(), combiner_.sum(*index), delta.size() / combiner_.width_);
  requester.worker = slot.worker;
  rates = slot.lowest_rates;
}

void Combiner::Call::acknowledged(std::size_t chunk) {
  const auto index = led(chunk);
  if (!index) return;
  combiner_.end(combiner_.slot(*index), nullptr);
  std::erase_if(led_, [&](const LedSlot& one) { return one.chunk == chunk; });
  combiner_.moved().notify();
}

void Combiner::Call::pick_up(std::size_t index) {
  Slot& slot = combiner_.slot(index);
  const SharedLock lock(engine_, slot.lock);
  if (slot.state.load() == State::failed && !problem_) problem_ = Problem{.kind = slot.kind, .text = slot.problem};
  slot.members &= ~(std::uint64_t{1} << static_cast<unsigned>(engine_.world().here().local));
  combiner_.reap(slot);
}

void Combiner::Call::collect() {
  std::erase_if(joined_, [&](const JoinedSlot& one) {
    const State state = combiner_.slot(one.slot).state.load();
    if (state != State::done && state != State::failed) return false;
    pick_up(one.slot);
    return true;
  });
}

void Combiner::Call::finish() {
  const auto waits = [&](const JoinedSlot& one) {
    const State state = combiner_.slot(one.slot).state.load();
    return state != State::done && state != State::failed;
  };
  engine_.waiter().wait(combiner_.moved(), {.call = ::pleiad::Call::add,
                                            .ready = [&] { return std::ranges::none_of(joined_, waits); },
                                            .missing =
                                                [&] {
                                                  std::vector<int> ranks;
                                                  for (const JoinedSlot& one : joined_) {
                                                    if (waits(one)) ranks.push_back(one.leader);
                                                  }
                                                  return ranks;
                                                },
                                            .ordered = false});
  collect();
  if (problem_) problem_->raise();
}

}  // namespace pleiad

#include "engine/activity.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "core/process.h"
#include "core/text.h"

namespace pleiad {

namespace {

std::atomic<std::uint64_t> activities_made{0};

thread_local bool delegated_thread = false;

// The worlds with which this thread is registered. The thread unregisters when it ends.
struct ThreadRegistrations {
  struct Entry {
    std::uint64_t activity;
    std::uint64_t generation;
    std::weak_ptr<Segment> memory;
    RankSlot* slot;
  };
  std::vector<Entry> entries;

  ThreadRegistrations() = default;
  ~ThreadRegistrations() {
    for (const Entry& entry : entries) {
      const auto memory = entry.memory.lock();
      if (memory == nullptr || entry.generation != fork_generation()) continue;
      entry.slot->callers.fetch_sub(1);
      entry.slot->threads.fetch_sub(1);
      entry.slot->changes.fetch_add(1);
    }
  }
  ThreadRegistrations(const ThreadRegistrations&) = delete;
  ThreadRegistrations& operator=(const ThreadRegistrations&) = delete;
};
thread_local ThreadRegistrations thread_registrations;

}  // namespace

Activity::Activity(const RankContext& context, const Membership& members)
    : context_(context), members_(members), id_(activities_made.fetch_add(1) + 1) {}

void Activity::register_thread() {
  if (delegated_thread) return;
  auto& entries = thread_registrations.entries;
  if (std::ranges::find(entries, id_, &ThreadRegistrations::Entry::activity) != entries.end()) return;
  std::erase_if(entries, [](const auto& entry) { return entry.memory.expired(); });
  entries.push_back({.activity = id_, .generation = fork_generation(), .memory = context_.memory, .slot = &self()});
  self().callers.fetch_add(1);
  self().threads.fetch_add(1);
  self().changes.fetch_add(1);
}

void Activity::record_threads() { self().known_threads.store(static_cast<std::uint32_t>(thread_count(getpid()))); }

std::string Activity::report() const {
  std::string text;
  for (const int r : context_.world.neighbours()) {
    const RankSlot& slot = context_.slot(r);
    const Call call = slot.call.load();
    const std::uint32_t table = slot.table.load();
    std::string doing(name_of(call));
    if (table != kNoTable) doing += fmt::format("(\"{}\")", table_namer_ ? table_namer_(table) : std::to_string(table));
    const Liveness liveness = slot.liveness.load();
    if (liveness == Liveness::dead) {
      doing = fmt::format("dead, was in {}", doing);
    } else if (liveness == Liveness::left) {
      doing = "has shut down";
    } else if (slot.waiting.load() != 0) {
      doing += fmt::format(", waiting for {:.1f} s", static_cast<double>(now_ns() - slot.since.load()) * 1e-9);
    }
    text += fmt::format("{}{}: {}; {} adds, {} gets, {} collectives", text.empty() ? "" : "\n", members_.describe(r),
                        doing, grouped(static_cast<std::int64_t>(slot.adds.load())),
                        grouped(static_cast<std::int64_t>(slot.gets.load())),
                        grouped(static_cast<std::int64_t>(slot.collectives.load())));
  }
  return text;
}

CallMark::CallMark(const Activity& activity, Call call, std::uint32_t table)
    : slot_(activity.self()),
      before_(slot_.call.load(std::memory_order_relaxed)),
      table_before_(slot_.table.load(std::memory_order_relaxed)) {
  slot_.table.store(table, std::memory_order_relaxed);
  slot_.call.store(call, std::memory_order_relaxed);
}

CallMark::~CallMark() {
  slot_.call.store(before_, std::memory_order_relaxed);
  slot_.table.store(table_before_, std::memory_order_relaxed);
}

DelegatedWork::DelegatedWork(const Activity& activity) : slot_(&activity.self()) {
  slot_->threads.fetch_add(1);
  slot_->changes.fetch_add(1);
}

DelegatedWork::~DelegatedWork() {
  if (slot_ == nullptr) return;
  slot_->threads.fetch_sub(1);
  slot_->changes.fetch_add(1);
}

void DelegatedWork::set_thread_delegated(bool is_delegated) { delegated_thread = is_delegated; }

}  // namespace pleiad

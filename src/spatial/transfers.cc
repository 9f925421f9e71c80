#include "spatial/transfers.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <new>
#include <optional>
#include <thread>

#include "core/problem.h"
#include "core/process.h"
#include "engine/futex.h"
#include "pleiad/error.h"

namespace pleiad {
namespace {

constexpr std::size_t kAlign = 64;
constexpr std::size_t transfer_aligned(std::size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

}  // namespace

struct Transfers::Transfer {
  TransferPlan plan;
  bool mine = false;             // this rank is the sender or the receiver
  TransferHead* head = nullptr;  // in shared memory, or in `own` if the transfer uses messages
  char* bytes = nullptr;
  Event* moved_for_reader = nullptr;
  Event* moved_for_writer = nullptr;
  bool by_message = false;
  std::shared_ptr<void> own = {};
};

// Sends and receives messages for this rank in both directions at once, with one thread each. Callers post in rounds
// (to the k-th next rank, from the k-th previous one), so no order of blocking calls can deadlock.
class Transfers::MessageThreads {
 public:
  MessageThreads(Mailbox& mailbox, Activity& activity, Event& moved)
      : mailbox_(mailbox), moved_(moved), out_([this] { loop(sends_); }), in_([this] { loop(receives_); }) {
    activity.internal_thread_started();
    activity.internal_thread_started();
  }
  ~MessageThreads() {
    {
      const std::scoped_lock lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    out_.join();
    in_.join();
  }
  MessageThreads(const MessageThreads&) = delete;
  MessageThreads& operator=(const MessageThreads&) = delete;

  void post(Transfer& transfer, bool sending) {
    {
      const std::scoped_lock lock(mutex_);
      (sending ? sends_ : receives_).push_back(&transfer);
    }
    changed_.notify_all();
  }
  /// Throws the error of the first failed message.
  void check() {
    const std::scoped_lock lock(mutex_);
    if (problem_) problem_->raise();
  }
  [[nodiscard]] bool failed() const { return failed_.load(); }

 private:
  void loop(std::deque<Transfer*>& queue) {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stop_ || !queue.empty(); });
      const bool sends = &queue == &sends_;
      if (queue.empty() || (stop_ && (!sends || problem_))) return;  // posted messages are still sent
      Transfer& transfer = *queue.front();
      queue.pop_front();
      lock.unlock();
      std::optional<Problem> problem;
      try {
        if (sends) {
          mailbox_.send(transfer.plan.to, transfer.plan.tag, transfer.bytes, transfer.plan.bytes);
          transfer.head->taken.fetch_add(1);
        } else {
          mailbox_.receive(transfer.plan.from, transfer.plan.tag, transfer.bytes, transfer.plan.bytes);
          transfer.head->sent.fetch_add(1);
        }
      } catch (...) {
        problem = Problem::current();
      }
      lock.lock();
      if (problem && !problem_) problem_ = problem;
      if (problem) failed_.store(true);
      moved_.notify();
    }
  }

  Mailbox& mailbox_;
  Event& moved_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Transfer*> sends_;     // guarded by mutex_
  std::deque<Transfer*> receives_;  // guarded by mutex_
  bool stop_ = false;               // guarded by mutex_
  std::optional<Problem> problem_;  // guarded by mutex_
  std::atomic<bool> failed_{false};
  std::thread out_;
  std::thread in_;
};

Transfers::Transfers(Engine& engine, std::string name, const std::vector<TransferPlan>& plans, bool by_messages,
                     double delay)
    : engine_(engine), name_(std::move(name)), delay_(static_cast<std::int64_t>(delay * 1e9)) {
  // Ranks of one host compute the same offsets: one event per rank, then the transfers of this host.
  const World& world = engine.world();
  std::size_t end = transfer_aligned(sizeof(Event)) * static_cast<std::size_t>(world.size());
  std::vector<std::size_t> offsets;
  bool messages = false;
  for (const TransferPlan& plan : plans) {
    Transfer transfer{.plan = plan, .mine = plan.from == world.rank() || plan.to == world.rank()};
    const bool here = world.on_this_host(plan.from) && world.on_this_host(plan.to) && !by_messages;
    transfer.by_message = transfer.mine && !here;
    messages |= transfer.by_message;
    offsets.push_back(end);
    if (here) end += transfer_aligned(sizeof(TransferHead)) + transfer_aligned(plan.bytes);
    if (transfer.by_message) {
      const auto owner = std::make_shared<Segment>(
          Segment::anonymous(transfer_aligned(sizeof(TransferHead)) + transfer_aligned(plan.bytes) + 1, false));
      transfer.own = owner;
      transfer.head = new (owner->data()) TransferHead;
      transfer.bytes = static_cast<char*>(owner->data()) + transfer_aligned(sizeof(TransferHead));
    }
    transfers_.push_back(std::move(transfer));
  }
  memory_ = engine.segments().share(end, false);
  auto* const base = static_cast<char*>(memory_->data());
  const auto event = [&](int rank) {
    return reinterpret_cast<Event*>(base + transfer_aligned(sizeof(Event)) * static_cast<std::size_t>(rank));
  };
  for (std::size_t i = 0; i < transfers_.size(); ++i) {
    Transfer& transfer = transfers_[i];
    if (transfer.by_message) {
      transfer.moved_for_reader = transfer.moved_for_writer = event(world.rank());
      continue;
    }
    transfer.moved_for_reader = event(transfer.plan.to);
    transfer.moved_for_writer = event(transfer.plan.from);
    transfer.head = reinterpret_cast<TransferHead*>(base + offsets[i]);  // zeroed memory is its initial state
    transfer.bytes = base + offsets[i] + transfer_aligned(sizeof(TransferHead));
  }
  if (!messages) return;
  message_threads_ = std::make_unique<MessageThreads>(engine.mailbox(), engine.activity(), *event(world.rank()));
}

Transfers::~Transfers() = default;

void Transfers::await(const Transfer& transfer, bool sending) {
  const TransferHead& head = *transfer.head;
  const auto there = [&] {
    const bool moved = sending ? head.taken.load() == head.sent.load() : head.sent.load() > head.taken.load();
    return moved || (message_threads_ != nullptr && message_threads_->failed());
  };
  if (!there()) {
    const int peer = sending ? transfer.plan.to : transfer.plan.from;
    // A message may come from a rank that has left since. The wait of the message thread reports whom it waits for.
    const auto missing = [&] { return transfer.by_message ? std::vector<int>{} : std::vector<int>{peer}; };
    engine_.waiter().wait(sending ? *transfer.moved_for_writer : *transfer.moved_for_reader,
                          {.call = Call::exchange, .ready = there, .missing = missing});
  }
  if (message_threads_ != nullptr) message_threads_->check();
}

char* Transfers::fill(std::size_t index) {
  const Transfer& transfer = transfers_[index];
  await(transfer, true);
  return transfer.bytes;
}

void Transfers::send(std::size_t index) {
  Transfer& transfer = transfers_[index];
  if (delay_ > 0) transfer.head->ready_at.store(now_ns() + delay_, std::memory_order_relaxed);
  transfer.head->sent.fetch_add(1);
  if (transfer.by_message) return message_threads_->post(transfer, true);
  transfer.moved_for_reader->notify();
}

void Transfers::flush(std::size_t index) {
  if (transfers_[index].by_message) await(transfers_[index], true);
}

void Transfers::expect(std::size_t index) {
  Transfer& transfer = transfers_[index];
  if (transfer.by_message) message_threads_->post(transfer, false);
}

const char* Transfers::receive(std::size_t index) {
  const Transfer& transfer = transfers_[index];
  await(transfer, false);
  if (delay_ > 0) {
    const std::int64_t left = transfer.head->ready_at.load(std::memory_order_relaxed) - now_ns();
    if (left > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(left));
  }
  return transfer.bytes;
}

void Transfers::release(std::size_t index) {
  Transfer& transfer = transfers_[index];
  transfer.head->taken.fetch_add(1);
  if (!transfer.by_message) transfer.moved_for_writer->notify();
}

}  // namespace pleiad

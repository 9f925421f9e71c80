#include "spatial/channel_box.h"

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
constexpr std::size_t box_aligned(std::size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

}  // namespace

struct Boxes::Box {
  BoxPlan plan;
  bool mine = false;        // this rank is the sender or the receiver
  BoxHead* head = nullptr;  // in shared memory, or in `own` if the transfer uses messages
  char* bytes = nullptr;
  Event* moved_for_reader = nullptr;
  Event* moved_for_writer = nullptr;
  bool by_message = false;
  std::shared_ptr<void> own = {};
};

// Sends and receives messages for this rank in both directions at once, with one thread each. Callers post in rounds
// (to the k-th next rank, from the k-th previous one), so no order of blocking calls can deadlock.
class Boxes::Carrier {
 public:
  Carrier(Engine& engine, Event& moved)
      : engine_(engine), moved_(moved), out_([this] { loop(sends_); }), in_([this] { loop(receives_); }) {
    engine_.own_thread_started();
    engine_.own_thread_started();
  }
  ~Carrier() {
    {
      const std::scoped_lock lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    out_.join();
    in_.join();
  }
  Carrier(const Carrier&) = delete;
  Carrier& operator=(const Carrier&) = delete;

  void post(Box& box, bool sending) {
    {
      const std::scoped_lock lock(mutex_);
      (sending ? sends_ : receives_).push_back(&box);
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
  void loop(std::deque<Box*>& queue) {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stop_ || !queue.empty(); });
      const bool sends = &queue == &sends_;
      if (queue.empty() || (stop_ && (!sends || problem_))) return;  // posted messages are still sent
      Box& box = *queue.front();
      queue.pop_front();
      lock.unlock();
      std::optional<Problem> problem;
      try {
        if (sends) {
          engine_.send(box.plan.to, box.plan.tag, box.bytes, box.plan.bytes);
          box.head->taken.fetch_add(1);
        } else {
          engine_.receive(box.plan.from, box.plan.tag, box.bytes, box.plan.bytes);
          box.head->sent.fetch_add(1);
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

  Engine& engine_;
  Event& moved_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Box*> sends_;          // guarded by mutex_
  std::deque<Box*> receives_;       // guarded by mutex_
  bool stop_ = false;               // guarded by mutex_
  std::optional<Problem> problem_;  // guarded by mutex_
  std::atomic<bool> failed_{false};
  std::thread out_;
  std::thread in_;
};

Boxes::Boxes(Engine& engine, std::string name, const std::vector<BoxPlan>& plans, bool by_messages, double delay)
    : engine_(engine), name_(std::move(name)), delay_(static_cast<std::int64_t>(delay * 1e9)) {
  // Ranks of one host compute the same offsets: one event per rank, then the boxes of this host.
  const int host = engine.place(engine.rank()).host;
  std::size_t end = box_aligned(sizeof(Event)) * static_cast<std::size_t>(engine.size());
  std::vector<std::size_t> offsets;
  bool messages = false;
  for (const BoxPlan& plan : plans) {
    Box box{.plan = plan, .mine = plan.from == engine.rank() || plan.to == engine.rank()};
    const bool here = engine.place(plan.from).host == host && engine.place(plan.to).host == host && !by_messages;
    box.by_message = box.mine && !here;
    messages |= box.by_message;
    offsets.push_back(end);
    if (here) end += box_aligned(sizeof(BoxHead)) + box_aligned(plan.bytes);
    if (box.by_message) {
      const auto owner = std::make_shared<Segment>(
          Segment::anonymous(box_aligned(sizeof(BoxHead)) + box_aligned(plan.bytes) + 1, false));
      box.own = owner;
      box.head = new (owner->data()) BoxHead;
      box.bytes = static_cast<char*>(owner->data()) + box_aligned(sizeof(BoxHead));
    }
    boxes_.push_back(std::move(box));
  }
  memory_ = engine.share(end, false);
  auto* const base = static_cast<char*>(memory_->data());
  const auto event = [&](int rank) {
    return reinterpret_cast<Event*>(base + box_aligned(sizeof(Event)) * static_cast<std::size_t>(rank));
  };
  for (std::size_t i = 0; i < boxes_.size(); ++i) {
    Box& box = boxes_[i];
    if (box.by_message) {
      box.moved_for_reader = box.moved_for_writer = event(engine.rank());
      continue;
    }
    box.moved_for_reader = event(box.plan.to);
    box.moved_for_writer = event(box.plan.from);
    box.head = reinterpret_cast<BoxHead*>(base + offsets[i]);  // zeroed memory is its initial state
    box.bytes = base + offsets[i] + box_aligned(sizeof(BoxHead));
  }
  if (!messages) return;
  carrier_ = std::make_unique<Carrier>(engine, *event(engine.rank()));
}

Boxes::~Boxes() = default;

void Boxes::await(const Box& box, bool sending) {
  const BoxHead& head = *box.head;
  const auto there = [&] {
    const bool moved = sending ? head.taken.load() == head.sent.load() : head.sent.load() > head.taken.load();
    return moved || (carrier_ != nullptr && carrier_->failed());
  };
  if (!there()) {
    const int peer = sending ? box.plan.to : box.plan.from;
    // A message may come from a rank that has left since. The carrier's own wait reports whom it waits for.
    const auto missing = [&] { return box.by_message ? std::vector<int>{} : std::vector<int>{peer}; };
    engine_.wait(sending ? *box.moved_for_writer : *box.moved_for_reader,
                 {.call = Call::exchange, .ready = there, .missing = missing});
  }
  if (carrier_ != nullptr) carrier_->check();
}

char* Boxes::fill(std::size_t index) {
  const Box& box = boxes_[index];
  await(box, true);
  return box.bytes;
}

void Boxes::send(std::size_t index) {
  Box& box = boxes_[index];
  if (delay_ > 0) box.head->ready_at.store(now_ns() + delay_, std::memory_order_relaxed);
  box.head->sent.fetch_add(1);
  if (box.by_message) return carrier_->post(box, true);
  box.moved_for_reader->notify();
}

void Boxes::flush(std::size_t index) {
  if (boxes_[index].by_message) await(boxes_[index], true);
}

void Boxes::expect(std::size_t index) {
  Box& box = boxes_[index];
  if (box.by_message) carrier_->post(box, false);
}

const char* Boxes::receive(std::size_t index) {
  const Box& box = boxes_[index];
  await(box, false);
  if (delay_ > 0) {
    const std::int64_t left = box.head->ready_at.load(std::memory_order_relaxed) - now_ns();
    if (left > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(left));
  }
  return box.bytes;
}

void Boxes::release(std::size_t index) {
  Box& box = boxes_[index];
  box.head->taken.fetch_add(1);
  if (!box.by_message) box.moved_for_writer->notify();
}

}  // namespace pleiad

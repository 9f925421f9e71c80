#include "table/queue.h"

#include <new>

#include "table/failed_calls.h"

namespace pleiad {

Operation::Operation(std::shared_ptr<Engine> engine, std::uint32_t table, Call call, std::size_t bytes,
                     std::function<void(Operation&)> work)
    : engine_(std::move(engine)), table_(table), call_(call), bytes_(bytes), work_(std::move(work)) {}

void Operation::run() {
  try {
    work_(*this);
  } catch (const RankKilled&) {
    killed_ = true;
  } catch (...) {
    problem_ = Problem::current();
  }
}

void Operation::finish() {
  work_ = nullptr;
  done_.store(true);
  finished_.notify();
}

void Operation::wait() {
  engine_->waiter().wait(finished_, {.call = Call::wait,
                                     .ready = [&] { return done(); },
                                     .missing = [] { return std::vector<int>{}; },
                                     .ordered = false});
  if (killed_) throw RankKilled{};
  if (!problem_) return;
  reported_.store(true);
  problem_->raise();
}

void Operation::abandon() {
  const std::lock_guard lock(mutex_);
  abandoned_ = true;
}

void Operation::write_unless_abandoned(FunctionRef<void()> write) {
  const std::lock_guard lock(mutex_);
  if (!abandoned_) write();
}

OperationQueue::~OperationQueue() { stop(); }

void OperationQueue::stop() {
  if (engine_.members().in_forked_child()) {
    // The thread exists in the parent process only. Replace it and the condition variable without destroying them: the
    // destructor of a condition variable waits for its waiters.
    new (&thread_) std::thread;
    new (&filled_) std::condition_variable;
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  filled_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void OperationQueue::submit(const std::shared_ptr<Operation>& operation) {
  engine_.waiter().wait(
      moved_, {.call = Call::wait,
               .ready =
                   [&] {
                     return waiting_.load() == 0 ||
                            (bytes_.load() + operation->bytes() <= kMostBytes && waiting_.load() < kMostOperations);
                   },
               .missing = [] { return std::vector<int>{}; },
               .ordered = false});
  {
    const std::lock_guard lock(mutex_);
    if (stop_) throw StateError("the session was shut down");
    waiting_.fetch_add(1);
    bytes_.fetch_add(operation->bytes());
    if (!engagement_) engagement_.emplace(engine_.activity());
    operations_.push_back(operation);
    if (!thread_.joinable()) {
      engine_.activity().internal_thread_started();
      thread_ = std::thread([this] { run(); });
    }
  }
  filled_.notify_one();
}

void OperationQueue::drain() {
  if (empty()) return;
  engine_.waiter().wait(moved_, {.call = Call::flush,
                                 .ready = [&] { return empty(); },
                                 .missing = [] { return std::vector<int>{}; },
                                 .ordered = false});
}

void OperationQueue::run() {
  DelegatedWork::set_thread_delegated(true);
  for (;;) {
    std::shared_ptr<Operation> operation;
    {
      std::unique_lock lock(mutex_);
      filled_.wait(lock, [&] { return stop_ || !operations_.empty(); });
      if (operations_.empty()) return;
      operation = std::move(operations_.front());
      operations_.pop_front();
    }
    operation->run();
    if (operation->problem_) failures_.add(operation);  // before any thread can see that it is done
    operation->finish();
    {
      const std::lock_guard lock(mutex_);
      if (operations_.empty()) engagement_.reset();
    }
    bytes_.fetch_sub(operation->bytes());
    waiting_.fetch_sub(1);
    moved_.notify();
  }
}

}  // namespace pleiad

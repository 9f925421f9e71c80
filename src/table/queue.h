// A queue of operations that a background thread runs for this rank.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "core/problem.h"
#include "engine/engine.h"

namespace pleiad {

/// A pending get or add.
class Operation {
 public:
  /// `work` runs the call. It may write to the caller's memory only inside write_unless_abandoned. `bytes` counts
  /// towards the queue's limit.
  Operation(std::shared_ptr<Engine> engine, std::uint32_t table, Call call, std::size_t bytes,
            std::function<void(Operation&)> work);

  [[nodiscard]] bool done() const { return done_.load(); }
  /// Returns true if the operation is done and wait() would throw.
  [[nodiscard]] bool failed() const { return done() && (problem_ || killed_); }
  void wait();
  [[nodiscard]] std::uint32_t table() const { return table_; }
  [[nodiscard]] Call call() const { return call_; }
  /// Declares that the caller's memory may go away: the operation no longer writes to it.
  void abandon();
  /// Runs `write` unless the operation was abandoned. abandon() waits for a running write.
  void write_unless_abandoned(FunctionRef<void()> write);
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] const Membership& members() const { return engine_->members(); }

 private:
  friend class OperationQueue;
  friend class FailedCalls;
  void run();
  void finish();

  std::shared_ptr<Engine> engine_;  // shared ownership: a handle may outlive its session
  std::uint32_t table_;
  Call call_;
  std::size_t bytes_;
  std::function<void(Operation&)> work_;
  std::mutex mutex_;
  bool abandoned_ = false;          // guarded by mutex_
  std::optional<Problem> problem_;  // written before done_, like killed_
  bool killed_ = false;
  std::atomic<bool> reported_{false};  ///< the error has been thrown to the caller
  std::atomic<bool> done_{false};
  Event finished_;
};

class FailedCalls;

/// Runs operations one after another on a thread that the first one starts. The queue holds at most kMostBytes; a
/// caller that submits more waits.
class OperationQueue {
 public:
  static constexpr std::size_t kMostBytes = 64 * 1024 * 1024;
  static constexpr std::size_t kMostOperations = 4096;

  /// Adds every operation that fails to `failures`.
  OperationQueue(Engine& engine, FailedCalls& failures) : engine_(engine), failures_(failures) {}
  ~OperationQueue();
  /// Runs the remaining operations and ends the thread. The rank has left its world by then, so none of them waits for
  /// long.
  void stop();
  OperationQueue(const OperationQueue&) = delete;
  OperationQueue& operator=(const OperationQueue&) = delete;

  void submit(const std::shared_ptr<Operation>& operation);
  /// Waits until every submitted operation is done. Errors stay in the FailedCalls.
  void drain();
  [[nodiscard]] bool empty() const { return waiting_.load() == 0; }

 private:
  void run();

  Engine& engine_;
  FailedCalls& failures_;
  std::atomic<std::size_t> waiting_{0};
  std::atomic<std::size_t> bytes_{0};
  Event moved_;
  std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<std::shared_ptr<Operation>> operations_;  // guarded by mutex_
  std::optional<DelegatedWork> engagement_;            // guarded by mutex_; held while the queue is not empty
  bool stop_ = false;                                  // guarded by mutex_
  std::thread thread_;                                 // guarded by mutex_
};

}  // namespace pleiad

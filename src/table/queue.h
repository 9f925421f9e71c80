// Operations that another thread carries out for this rank.
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

/// A get or add under way.
class Operation {
 public:
  /// `work` carries out the call, and writes to the caller's memory only inside write_unless_abandoned. `bytes` counts
  /// against the queue's limit.
  Operation(std::shared_ptr<Engine> engine, std::uint32_t table, Call call, std::size_t bytes,
            std::function<void(Operation&)> work);

  [[nodiscard]] bool done() const { return done_.load(); }
  /// True once the operation is done and wait() would throw.
  [[nodiscard]] bool failed() const { return done() && (problem_ || killed_); }
  void wait();
  [[nodiscard]] std::uint32_t table() const { return table_; }
  [[nodiscard]] Call call() const { return call_; }
  /// The caller's memory may go away: from now on it is left alone.
  void abandon();
  /// Runs `write` unless abandoned; abandon() waits for its end.
  void write_unless_abandoned(FunctionRef<void()> write);
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] const Engine& engine() const { return *engine_; }

 private:
  friend class OperationQueue;
  friend class FailedCalls;
  void run();
  void finish();

  std::shared_ptr<Engine> engine_;  // a handle may outlive its session
  std::uint32_t table_;
  Call call_;
  std::size_t bytes_;
  std::function<void(Operation&)> work_;
  std::mutex mutex_;
  bool abandoned_ = false;          // guarded by mutex_
  std::optional<Problem> problem_;  // written before done_, as is killed_
  bool killed_ = false;
  std::atomic<bool> reported_{false};  ///< the caller has received the error
  std::atomic<bool> done_{false};
  Event finished_;
};

class FailedCalls;

/// Runs operations one after another, on a thread that is started with the first of them. At most kMostBytes wait in
/// it: a caller that hands over more waits.
class OperationQueue {
 public:
  static constexpr std::size_t kMostBytes = 64 * 1024 * 1024;
  static constexpr std::size_t kMostOperations = 4096;

  /// Reports every operation that fails to `failures`.
  OperationQueue(Engine& engine, FailedCalls& failures) : engine_(engine), failures_(failures) {}
  ~OperationQueue();
  /// Runs what is still there and ends the thread. The rank has left its world, so nothing in it waits for long.
  void stop();
  OperationQueue(const OperationQueue&) = delete;
  OperationQueue& operator=(const OperationQueue&) = delete;

  void submit(const std::shared_ptr<Operation>& operation);
  /// Waits until every submitted operation is done. Errors are kept in the FailedCalls.
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
  std::optional<DelegatedWork> engagement_;            // guarded by mutex_; held while there is something to do
  bool stop_ = false;                                  // guarded by mutex_
  std::thread thread_;                                 // guarded by mutex_
};

}  // namespace pleiad

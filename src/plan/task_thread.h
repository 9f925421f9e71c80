// A thread that runs tasks in order.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "core/problem.h"

namespace pleiad {

class TaskThread {
 public:
  TaskThread();
  /// Waits for the running task and discards the others.
  ~TaskThread();
  TaskThread(const TaskThread&) = delete;
  TaskThread& operator=(const TaskThread&) = delete;

  void post(std::function<void()> task);
  /// Blocks until all posted tasks have finished. Rethrows the exception of the first task that failed; later tasks are
  /// discarded.
  void wait();
  /// Waits for the running task and discards the others and any error.
  void drop() noexcept;

 private:
  void loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::function<void()>> tasks_;  // guarded by mutex_; tasks from next_ on have not started
  std::size_t next_ = 0;                      // guarded by mutex_
  bool busy_ = false;                         // guarded by mutex_
  bool stop_ = false;                         // guarded by mutex_
  std::optional<Problem> problem_;            // guarded by mutex_
  std::thread thread_;
};

}  // namespace pleiad

// One thread that does what it is given, in order.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "core/problem.h"

namespace pleiad {

class Worker {
 public:
  Worker();
  /// Waits for what is under way; what is not begun is dropped.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void post(std::function<void()> task);
  /// Returns when everything posted is done, or throws what the first failed task threw; tasks after it are dropped.
  void wait();
  /// Waits for what is under way and drops the rest, and what went wrong.
  void drop() noexcept;

 private:
  void loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::function<void()>> tasks_;  // guarded by mutex_; from next_ on to be done
  std::size_t next_ = 0;                      // guarded by mutex_
  bool busy_ = false;                         // guarded by mutex_
  bool stop_ = false;                         // guarded by mutex_
  std::optional<Problem> problem_;            // guarded by mutex_
  std::thread thread_;
};

}  // namespace pleiad

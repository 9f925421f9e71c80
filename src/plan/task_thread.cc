#include "plan/task_thread.h"

#include "core/threads.h"

namespace pleiad {

TaskThread::TaskThread() : thread_([this] { loop(); }) {}

TaskThread::~TaskThread() {
  {
    const std::scoped_lock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void TaskThread::post(std::function<void()> task) {
  {
    const std::scoped_lock lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_all();
}

void TaskThread::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return next_ == tasks_.size() && !busy_; });
  tasks_.clear();
  next_ = 0;
  if (!problem_) return;
  const Problem problem = *problem_;
  problem_.reset();
  lock.unlock();
  problem.raise();
}

void TaskThread::drop() noexcept {
  std::unique_lock lock(mutex_);
  next_ = tasks_.size();
  changed_.wait(lock, [&] { return !busy_; });
  tasks_.clear();
  next_ = 0;
  problem_.reset();
}

void TaskThread::loop() {
  set_compute_threads(1);  // the other cores compute backward
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || next_ < tasks_.size(); });
    if (stop_) return;
    const std::function<void()> task = std::move(tasks_[next_++]);
    const bool skip = problem_.has_value();
    busy_ = true;
    lock.unlock();
    std::optional<Problem> problem;
    if (!skip) {
      try {
        task();
      } catch (...) {
        problem = Problem::current();
      }
    }
    lock.lock();
    if (problem) problem_ = problem;
    busy_ = false;
    if (next_ == tasks_.size()) changed_.notify_all();
  }
}

}  // namespace pleiad

// Counters and timers for sections of a program.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "multiverso/util/log.h"
#include "multiverso/util/timer.h"

namespace multiverso {

class Monitor;

/// The monitors of this process by name. Thread-safe.
class Dashboard {
 public:
  static void AddMonitor(const std::string& name, Monitor* monitor) {
    const std::lock_guard<std::mutex> lock(board().mutex);
    board().monitors[name] = monitor;
  }
  static void RemoveMonitor(const std::string& name) {
    const std::lock_guard<std::mutex> lock(board().mutex);
    board().monitors.erase(name);
  }
  /// Returns one monitor as text, or an empty string if there is none of that name.
  static std::string Watch(const std::string& name);
  /// Logs all monitors.
  static void Display();

 private:
  struct Board {
    std::mutex mutex;
    std::map<std::string, Monitor*> monitors;
  };
  static Board& board() {
    static Board the;
    return the;
  }
};

/// Counts and times the code between Begin and End. Not thread-safe: one thread at a time.
class Monitor {
 public:
  explicit Monitor(const std::string& name) : name_(name) { Dashboard::AddMonitor(name_, this); }
  ~Monitor() { Dashboard::RemoveMonitor(name_); }
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  void Begin() { timer_.Start(); }
  void End() {
    elapse_ += timer_.elapse();
    ++count_;
  }

  std::string name() const { return name_; }
  int count() const { return count_; }
  double elapse() const { return elapse_; }  ///< milliseconds
  double average() const { return count_ == 0 ? 0.0 : elapse_ / count_; }
  std::string info_string() const {
    return "[" + name_ + "] count " + std::to_string(count_) + ", total " + std::to_string(elapse_) + " ms, average " +
           std::to_string(average()) + " ms";
  }

 private:
  std::string name_;
  double elapse_ = 0;
  int count_ = 0;
  Timer timer_;
};

inline std::string Dashboard::Watch(const std::string& name) {
  const std::lock_guard<std::mutex> lock(board().mutex);
  const auto found = board().monitors.find(name);
  return found == board().monitors.end() ? "" : found->second->info_string();
}

inline void Dashboard::Display() {
  const std::lock_guard<std::mutex> lock(board().mutex);
  for (const auto& entry : board().monitors) Log::Info("%s\n", entry.second->info_string().c_str());
}

}  // namespace multiverso

#define REGISTER_MONITOR(name) static ::multiverso::Monitor g_##name##_monitor(#name);
#define MONITOR_BEGIN(name) \
  REGISTER_MONITOR(name)    \
  g_##name##_monitor.Begin();
#define MONITOR_END(name) g_##name##_monitor.End();

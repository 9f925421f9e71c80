// What a process of a host does for its neighbours on a thread of its own: hands out its segments, and watches them
// live.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/job_key.h"

namespace pleiad {

/// Sleeps while there is nothing to do.
class Service {
 public:
  /// Listens on a Unix socket that has no name in the file system; strangers without the key get nothing.
  Service(const JobKey& key, int rank);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /// From now on neighbours may fetch `fd`, which stays the caller's, under `id`.
  void publish(std::uint64_t id, int fd);
  /// From now on died(rank) is called once for every one of these processes that ends. A TransportError where one
  /// cannot be watched.
  void watch(const std::vector<std::pair<int, int>>& ranks_and_pids, std::function<void(int)> died);
  /// A descriptor of what another rank has published. A TransportError says what went wrong.
  [[nodiscard]] static int fetch(const JobKey& key, int from_rank, std::uint64_t id);

 private:
  void run();
  void answer(int connection);

  JobKey key_;
  int listener_ = -1;
  int stop_ = -1;
  int spare_ = -1;  ///< closed for a moment when no other descriptor is left
  std::mutex mutex_;
  std::map<std::uint64_t, int> published_;    // guarded by mutex_
  std::vector<std::pair<int, int>> watched_;  // rank and pidfd; guarded by mutex_
  std::function<void(int)> died_;             // guarded by mutex_
  std::thread thread_;
};

}  // namespace pleiad

// Serves the other ranks of this host on a thread of its own: shares segments with them and watches their processes.
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
class SegmentServer {
 public:
  /// Listens on a Unix socket in the abstract namespace. Requests without the key get no answer.
  SegmentServer(const JobKey& key, int rank);
  ~SegmentServer();
  SegmentServer(const SegmentServer&) = delete;
  SegmentServer& operator=(const SegmentServer&) = delete;

  /// Lets the other ranks of this host fetch `fd` under `id`. The caller keeps ownership of `fd`.
  void publish(std::uint64_t id, int fd);
  /// Calls died(rank) once for each of these processes when it ends. Throws TransportError if one cannot be watched.
  void watch(const std::vector<std::pair<int, int>>& ranks_and_pids, std::function<void(int)> died);
  /// Returns a descriptor that another rank has published. Throws TransportError with the reason if that fails.
  [[nodiscard]] static int fetch(const JobKey& key, int from_rank, std::uint64_t id);

 private:
  void run();
  void answer(int connection);

  JobKey key_;
  int listener_ = -1;
  int stop_ = -1;
  int spare_ = -1;  ///< closed temporarily when the process runs out of descriptors
  std::mutex mutex_;
  std::map<std::uint64_t, int> published_;    // guarded by mutex_
  std::vector<std::pair<int, int>> watched_;  // rank and pidfd; guarded by mutex_
  std::function<void(int)> died_;             // guarded by mutex_
  std::thread thread_;
};

}  // namespace pleiad

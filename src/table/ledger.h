// Compares the workers' calls to synchronous tables: the k-th call must be the same everywhere.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace pleiad {

class CallLedger {
 public:
  CallLedger(Engine& engine, std::vector<int> worker_ranks);
  /// Names tables in messages.
  void set_namer(std::function<std::string(std::uint32_t)> namer) { namer_ = std::move(namer); }
  /// Writes down this worker's next call. A call that differs from another worker's is an OrderError, here and in every
  /// rank that waits for an ordered call. A worker far ahead of the slowest waits.
  void record(Call call, std::uint32_t table);

 private:
  [[nodiscard]] std::string words(Call call, std::uint32_t table) const;

  Engine& engine_;
  std::vector<int> worker_ranks_;
  std::function<std::string(std::uint32_t)> namer_;
};

}  // namespace pleiad

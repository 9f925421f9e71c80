// Errors of asynchronous calls that have not been thrown yet.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/problem.h"
#include "table/queue.h"

namespace pleiad {

/// Keeps the error of every asynchronous call that failed until it has been thrown: by the call's handle, by the next
/// call on the same table, or by a barrier, a save or the shutdown. Thread-safe.
class FailedCalls {
 public:
  /// Sets the function that names tables in messages.
  void set_namer(std::function<std::string(std::uint32_t)> namer);
  void add(const std::shared_ptr<Operation>& operation);
  /// Throws the table's oldest error that has not been thrown yet, and marks all of its errors as thrown.
  void raise(std::uint32_t table) {
    if (some_.load(std::memory_order_acquire)) raise_of(table);
  }
  /// The same for all tables.
  void raise_any() {
    if (some_.load(std::memory_order_acquire)) raise_of(std::nullopt);
  }

 private:
  void raise_of(std::optional<std::uint32_t> table);

  std::atomic<bool> some_{false};
  std::mutex mutex_;
  std::function<std::string(std::uint32_t)> namer_;     // guarded by mutex_
  std::vector<std::shared_ptr<Operation>> operations_;  // guarded by mutex_
};

}  // namespace pleiad

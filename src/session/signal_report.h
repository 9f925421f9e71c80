// Prints what every rank is doing when the process receives SIGUSR1.
#pragma once

#include <functional>
#include <memory>

namespace pleiad {

/// While an instance lives, SIGUSR1 calls `print` on a separate thread. It does not replace a handler that the user has
/// installed; only one instance can exist at a time.
class SignalReport {
 public:
  /// Returns null if the signal already has a handler.
  [[nodiscard]] static std::unique_ptr<SignalReport> install(std::function<void()> print);
  virtual ~SignalReport() = default;
};

}  // namespace pleiad

// Prints what every rank is doing when the process receives SIGUSR1.
#pragma once

#include <functional>
#include <memory>

namespace pleiad {

/// While one lives, SIGUSR1 calls `print` on a thread of its own. Leaves a handler that the user has installed alone,
/// and gives way to one that exists already.
class SignalReport {
 public:
  /// Null where the signal is taken.
  [[nodiscard]] static std::unique_ptr<SignalReport> install(std::function<void()> print);
  virtual ~SignalReport() = default;
};

}  // namespace pleiad

// A parameter's update while its gradient is made.
#pragma once

#include <cstdint>
#include <optional>

namespace pleiad::kernel {

/// Changes the values of one parameter by its gradient, piece by piece, while both are in cache. Threads may call it at
/// once for pieces that do not overlap; each element is handed over once a step.
class BlockUpdate {
 public:
  virtual ~BlockUpdate() = default;
  /// value = keep * value + factor * gradient, where the rule is as simple as that.
  struct Linear {
    double keep = 1;
    double factor = 0;
  };
  [[nodiscard]] virtual std::optional<Linear> linear() const = 0;
  /// Values begin to begin + count - 1 meet `gradient`, of the parameter's type.
  virtual void apply(std::int64_t begin, std::int64_t count, const void* gradient) = 0;
};

}  // namespace pleiad::kernel

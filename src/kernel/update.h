// Updates a parameter while its gradient is computed.
#pragma once

#include <cstdint>
#include <optional>

namespace pleiad::kernel {

/// Updates the values of one parameter block by block, while values and gradient are in the cache. Threads may call it
/// concurrently for blocks that do not overlap. Each element is updated once per step.
class BlockUpdate {
 public:
  virtual ~BlockUpdate() = default;
  /// value = keep * value + factor * gradient. Returned if the rule has this form.
  struct Linear {
    double keep = 1;
    double factor = 0;
  };
  [[nodiscard]] virtual std::optional<Linear> linear() const = 0;
  /// Updates the values [begin, begin + count) with `gradient`, which has the parameter's type.
  virtual void apply(std::int64_t begin, std::int64_t count, const void* gradient) = 0;
};

}  // namespace pleiad::kernel

// Limits the norm of the gradients of a step.
#pragma once

#include <span>

#include "plan/communicator.h"
#include "plan/layout.h"
#include "pleiad/nn/net.h"

namespace pleiad {

/// Scales the gradients of a step, if necessary, so that their L2 norm over all parameters of all ranks is at most a
/// limit.
class GradientClip {
 public:
  /// A limit of 0 disables it. All arguments must outlive this object.
  GradientClip(const nn::Net& net, const Layout& layout, Communicator& comm, double limit);
  [[nodiscard]] bool on() const { return limit_ > 0; }
  /// Collective if the plan splits parameters. Scales the complete gradients of the given parameters, and returns their
  /// norm before that, the same on all ranks. Leaves them unchanged if it is not finite.
  double apply(std::span<const std::size_t> parameters);

 private:
  const nn::Net& net_;
  const Layout& layout_;
  Communicator& comm_;
  const double limit_;
  bool splits_ = false;  // some parameters are split over ranks
};

}  // namespace pleiad

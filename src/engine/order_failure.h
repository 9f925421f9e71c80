// The failure that ends the ordered calls of all ranks of a world.
#pragma once

#include <string>

#include "engine/control.h"

namespace pleiad {

class Membership;

/// The first order failure of the world: ranks made different calls, or one of them gave up a step that the others wait
/// for. Thread-safe.
class OrderFailure {
 public:
  OrderFailure(const Control& control, const Membership& members) : control_(control), members_(members) {}

  /// Records the failure, unless there is one, and wakes all waiters. Returns the text of the recorded failure, for the
  /// caller to throw. gave_up = true means that this rank will not reach the step that the others wait for, so their
  /// waits must end too.
  [[nodiscard]] std::string record(const std::string& text, bool gave_up = false);
  /// Throws an OrderError if a failure is recorded.
  void check() const;
  /// The text of the recorded failure, or an empty string.
  [[nodiscard]] std::string text() const;
  /// Returns true if a failure is recorded and its rank gave up.
  [[nodiscard]] bool gave_up() const;

 private:
  const Control& control_;
  const Membership& members_;
};

}  // namespace pleiad

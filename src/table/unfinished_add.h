// Detects a worker that left a synchronous table in the middle of an add.
#pragma once

#include "table/storage.h"

namespace pleiad {

/// Returns true if the worker has begun an add and not completed it. This stays true for a worker that failed in an add
/// and then shut down: its add may have been applied in part, so the others must not continue without it.
[[nodiscard]] inline bool has_unfinished_add(const ClockSlot& slot) {
  return slot.adds_issued.load() > slot.adds_done.load();
}

}  // namespace pleiad

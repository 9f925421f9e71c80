// The state that all parts of a rank's engine share.
#pragma once

#include <memory>

#include "core/log.h"
#include "engine/control.h"
#include "engine/engine_kind.h"
#include "engine/hooks.h"
#include "engine/segment.h"
#include "engine/world.h"
#include "pleiad/options.h"

namespace pleiad {

/// The engine owns it. It outlives all parts, which keep a reference to it.
struct RankContext {
  RankContext(EngineKind kind, SessionOptions options, World world, std::shared_ptr<Segment> control_memory,
              Hooks* hooks);

  const EngineKind kind;
  const SessionOptions options;
  World world;
  const std::shared_ptr<Segment> memory;  ///< of the control segment
  const Control control;
  RankHooks hooks;
  const Log log;

  [[nodiscard]] RankSlot& slot(int rank) const { return control.rank(world.location(rank).local); }
  [[nodiscard]] RankSlot& self() const { return control.rank(world.here().local); }
};

}  // namespace pleiad

#include "engine/rank_context.h"

#include <utility>

namespace pleiad {

RankContext::RankContext(EngineKind the_kind, SessionOptions the_options, World the_world,
                         std::shared_ptr<Segment> control_memory, Hooks* the_hooks)
    : kind(the_kind),
      options(std::move(the_options)),
      world(std::move(the_world)),
      memory(std::move(control_memory)),
      control(memory->data(), world.local_ranks()),
      hooks(the_hooks, world.rank()),
      log(options.log_level, world.rank(), world.size(), world.here().name) {}

}  // namespace pleiad

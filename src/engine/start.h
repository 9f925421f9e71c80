// Chooses and starts the engine of a process.
#pragma once

#include <memory>

#include "engine/engine.h"

namespace pleiad {

/// Joins the launcher's world, or makes a world of one. See Session::start.
[[nodiscard]] std::shared_ptr<Engine> start_engine(SessionOptions options);

/// Loads the library behind a launched world; throws where this build has none. `looked_in` lists where it may lie.
[[nodiscard]] std::unique_ptr<class Wire> load_wire();

}  // namespace pleiad

// Chooses and starts the engine of a process.
#pragma once

#include <functional>
#include <memory>

#include "engine/engine.h"

namespace pleiad {

/// Joins the launcher's world, or makes a world of one. See Session::start.
[[nodiscard]] std::shared_ptr<Engine> start_engine(SessionOptions options, std::function<bool()> interrupt = {});

/// Loads the library behind a launched world; throws where this build has none.
[[nodiscard]] std::unique_ptr<class Wire> load_wire(const std::function<void()>& patience);

}  // namespace pleiad

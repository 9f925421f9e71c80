// Selects and starts the engine of a process.
#pragma once

#include <functional>
#include <memory>

#include "engine/engine.h"

namespace pleiad {

/// Joins the launcher's world, or creates a world of one rank. See Session::start.
[[nodiscard]] std::shared_ptr<Engine> start_engine(SessionOptions options, std::function<bool()> interrupt = {});

/// Loads the MPI module. Throws TransportError if this build has none.
[[nodiscard]] std::unique_ptr<class Transport> load_mpi_transport(const std::function<void()>& on_wait);

}  // namespace pleiad

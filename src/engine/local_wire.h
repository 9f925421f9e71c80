// How the processes of one host meet without MPI: over a Unix socket of rank 0.
#pragma once

#include <memory>

#include "engine/launcher.h"
#include "engine/wire.h"

namespace pleiad {

/// Collective: waits until all `launch.size` processes have come. They must be on this host and of one user. Throws
/// TransportError where one of them ends meanwhile, and StateError where two claim the same rank.
[[nodiscard]] std::unique_ptr<Wire> meet_on_this_host(const Launch& launch, Patience patience);

}  // namespace pleiad

// Connects the processes of one host without MPI, over a Unix socket of rank 0.
#pragma once

#include <memory>

#include "engine/launcher.h"
#include "engine/transport.h"

namespace pleiad {

/// Collective: blocks until all `launch.size` processes have connected. They must be on this host and belong to one
/// user. Throws TransportError if one of them ends meanwhile, and StateError if two claim the same rank.
[[nodiscard]] std::unique_ptr<Transport> connect_local_ranks(const Launch& launch, WaitCallback on_wait);

}  // namespace pleiad

// The stub for load_wire.cc in a build without MPI.
#include "engine/start.h"
#include "engine/wire.h"
#include "pleiad/error.h"

namespace pleiad {

std::unique_ptr<Wire> load_wire(const Patience&) {
  throw TransportError(
      "[start] an MPI launcher started this process, but Pleiad was built without MPI (PLEIAD_MPI=OFF); on one host "
      "use `pleiad launch` or torchrun, which need none");
}

}  // namespace pleiad

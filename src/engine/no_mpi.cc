// The stub for load_mpi.cc in a build without MPI.
#include "engine/start.h"
#include "engine/transport.h"
#include "pleiad/error.h"

namespace pleiad {

std::unique_ptr<Transport> load_mpi_transport(const WaitCallback&) {
  throw TransportError(
      "[start] an MPI launcher started this process, but Pleiad was built without MPI (PLEIAD_MPI=OFF); on one host "
      "use `pleiad launch` or torchrun, which do not need MPI");
}

}  // namespace pleiad

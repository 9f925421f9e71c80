// Calls the stub that replaces the loader of the MPI module in a build without MPI, through the declaration that the
// engine uses.
#include <cstdio>
#include <string_view>

#include "engine/start.h"
#include "engine/transport.h"
#include "pleiad/error.h"

int main() {
  try {
    (void)pleiad::load_mpi_transport([] {});
  } catch (const pleiad::TransportError& error) {
    std::puts(error.what());
    return std::string_view(error.what()).find("PLEIAD_MPI=OFF") == std::string_view::npos ? 1 : 0;
  }
  return 1;
}

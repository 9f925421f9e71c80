#include <dlfcn.h>

#include <filesystem>

#include <fmt/format.h>

#include "engine/start.h"
#include "engine/transport.h"
#include "pleiad/error.h"

namespace pleiad {

std::unique_ptr<Transport> load_mpi_transport(const WaitCallback& on_wait) {
  // The module is next to the library. Programs that link the library statically have it in the lib folder next to
  // their own.
  Dl_info here{};
  dladdr(reinterpret_cast<void*>(&load_mpi_transport), &here);
  const std::filesystem::path folder = std::filesystem::absolute(here.dli_fname).parent_path();
  std::string problem;
  for (const auto& candidate : {folder / "libpleiad_mpi.so", folder / "../lib/libpleiad_mpi.so"}) {
    // Open MPI's plug-ins resolve its symbols in the global scope.
    void* module = dlopen(candidate.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (module == nullptr) {
      problem += fmt::format("\n  {}", dlerror());
      continue;
    }
    const auto start = reinterpret_cast<StartTransport>(dlsym(module, "pleiad_start_transport"));
    char error[512] = "the module has no pleiad_start_transport";
    Transport* transport = start == nullptr ? nullptr : start(on_wait, error, sizeof error);
    if (transport == nullptr) throw TransportError(fmt::format("[start] {}", error));
    return std::unique_ptr<Transport>(transport);
  }
  throw TransportError(
      fmt::format("[start] an MPI launcher started this process, but the MPI module cannot be loaded:{}", problem));
}

}  // namespace pleiad

#include "kernel/blas/library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <fmt/format.h>

#include "pleiad/error.h"

namespace pleiad::kernel {
namespace {

constexpr const char* kLibrary = "libopenblas.so.0";
constexpr const char* kChoice = "OPENBLAS_CORETYPE";

/// Returns the name of kernels that are faster than OpenBLAS's own choice, or null.
const char* better_kernels() {
#if defined(__x86_64__)
  constexpr unsigned kZen3And4 = 0x19;
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid(0, &a, &b, &c, &d) == 0 || b != signature_AMD_ebx) return nullptr;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return nullptr;
  const unsigned family = (a >> 8 & 0xf) + (a >> 20 & 0xff);
  if (family == kZen3And4) return "Haswell";
#endif
  return nullptr;
}

/// Returns the OpenBLAS beside this library, which a wheel contains, or else the name by which the loader finds the
/// system's.
std::string path_of_library() {
  Dl_info here{};
  dladdr(reinterpret_cast<void*>(&path_of_library), &here);
  const auto beside = std::filesystem::absolute(here.dli_fname).parent_path() / kLibrary;
  return std::filesystem::exists(beside) ? beside.string() : kLibrary;
}

template <class Function>
Function symbol(void* library, const char* name) {
  void* found = dlsym(library, name);
  if (found == nullptr) throw StateError(fmt::format("{} has no function {}: {}", kLibrary, name, dlerror()));
  return reinterpret_cast<Function>(found);
}

Blas load() {
  const char* kernels = std::getenv(kChoice) == nullptr ? better_kernels() : nullptr;
  if (kernels != nullptr) setenv(kChoice, kernels, 1);
  void* library = dlopen(path_of_library().c_str(), RTLD_NOW | RTLD_LOCAL);
  const std::string problem = library == nullptr ? dlerror() : "";
  if (kernels != nullptr) unsetenv(kChoice);  // other programs' OpenBLAS, for example numpy's, must not see it
  if (library == nullptr) {
    throw StateError(
        fmt::format("cannot load OpenBLAS, which nets need ({}); Debian's package is libopenblas0", problem));
  }
  // OpenBLAS's own threads besides OpenMP's would take two to three times the time.
  symbol<decltype(&openblas_set_num_threads)>(library, "openblas_set_num_threads")(1);
  return {.sgemm = symbol<decltype(&cblas_sgemm)>(library, "cblas_sgemm"),
          .dgemm = symbol<decltype(&cblas_dgemm)>(library, "cblas_dgemm")};
}

}  // namespace

const Blas& blas() {
  static const Blas loaded = load();
  return loaded;
}

}  // namespace pleiad::kernel

#include "info.h"

#include <fmt/format.h>
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "core/process.h"
#include "core/text.h"
#include "mpirun.h"

namespace pleiad::cli {

namespace {

std::string cpu_features() {
#if defined(__x86_64__)
  std::vector<std::string> found;
  if (__builtin_cpu_supports("avx2")) found.emplace_back("avx2");
  if (__builtin_cpu_supports("fma")) found.emplace_back("fma");
  if (__builtin_cpu_supports("avx512f")) found.emplace_back("avx512f");
  if (__builtin_cpu_supports("avx512bw")) found.emplace_back("avx512bw");
  if (__builtin_cpu_supports("avx512vnni")) found.emplace_back("avx512vnni");
  return found.empty() ? "none of avx2, avx512" : join(found, " ");
#else
  return "not an x86-64 CPU";
#endif
}

std::string mpirun_facts() {
  try {
    const std::string path = find_mpirun();
    return fmt::format("{} ({})", path, version_of(path));
  } catch (const std::runtime_error& error) {
    return fmt::format("none: {}", error.what());
  }
}

}  // namespace

int print_info() {
  fmt::print("version   {}\n", PLEIAD_VERSION);
  fmt::print("host      {}\n", host_name());
  fmt::print("cores     {} usable of {}\n", usable_cores(), sysconf(_SC_NPROCESSORS_ONLN));
  fmt::print("cpu       {}\n", cpu_features());
  fmt::print("memory    {} available\n", byte_size(available_memory()));
  fmt::print("mpirun    {}\n", mpirun_facts());
  return 0;
}

}  // namespace pleiad::cli

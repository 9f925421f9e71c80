// Vectors of explicit width for loops in which register use matters, and the instruction sets to compile them for. A
// function for an instruction set cannot be a template; it wraps an always-inlined template.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "core/clones.h"

#if defined(__x86_64__)
#define PLEIAD_V4 __attribute__((target("arch=x86-64-v4")))
#define PLEIAD_V3 __attribute__((target("arch=x86-64-v3")))
#else  // all are candidates at run time, but these are never chosen
#define PLEIAD_V4
#define PLEIAD_V3
#endif

namespace pleiad::kernel {

enum class Level : std::uint8_t { any, v3, v4 };
inline constexpr std::pair<std::string_view, Level> kLevels[] = {
    {"any", Level::any}, {"v3", Level::v3}, {"v4", Level::v4}};
/// Returns the level of this CPU, or less if PLEIAD_CPU_LEVEL is `v3` or `any`, so that all levels can be tested and
/// measured.
inline Level cpu_level() {
#if defined(__x86_64__)
  const char* const wanted = std::getenv("PLEIAD_CPU_LEVEL");
  Level most = Level::v4;
  for (const auto& [name, level] : kLevels) {
    if (wanted != nullptr && name == wanted) most = level;
  }
  if (most >= Level::v4 && __builtin_cpu_supports("x86-64-v4") != 0) return Level::v4;
  if (most >= Level::v3 && __builtin_cpu_supports("x86-64-v3") != 0) return Level::v3;
#endif
  return Level::any;
}

template <class T, int kBytes>
struct Lanes {
  typedef T Vector __attribute__((vector_size(kBytes)));
  static constexpr int kCount = kBytes / static_cast<int>(sizeof(T));
};

// By reference, because passing vectors by value would change the ABI of functions compiled for other levels.
template <class V, class T>
PLEIAD_INLINE void load(V& v, const T* from) {
  std::memcpy(&v, from, sizeof v);
}
template <class V, class T>
PLEIAD_INLINE void store(T* to, const V& v) {
  std::memcpy(to, &v, sizeof v);
}

/// Interleaves the lanes of a and b: the lower halves into `low`, the upper halves into `high`.
template <class V, int... kIndex>
PLEIAD_INLINE void interleave(const V& a, const V& b, V& low, V& high, std::integer_sequence<int, kIndex...>) {
  constexpr int kCount = sizeof...(kIndex);
  low = __builtin_shufflevector(a, b, ((kIndex % 2) * kCount + kIndex / 2)...);
  high = __builtin_shufflevector(a, b, ((kIndex % 2) * kCount + kCount / 2 + kIndex / 2)...);
}

}  // namespace pleiad::kernel

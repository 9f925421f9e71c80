// Vectors of a width that is chosen by hand, for loops whose registers matter, and the instruction sets to compile them
// for. A function for one of them is no template: it wraps an always-inlined one.
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
#else  // all are chosen from at run time, and these never are
#define PLEIAD_V4
#define PLEIAD_V3
#endif

namespace pleiad::kernel {

enum class Level : std::uint8_t { any, v3, v4 };
/// What this CPU has, or less where PLEIAD_CPU_LEVEL is `v3` or `any`: so the others can be tested and measured.
inline Level cpu_level() {
#if defined(__x86_64__)
  const char* const wanted = std::getenv("PLEIAD_CPU_LEVEL");
  const std::string_view most = wanted == nullptr ? "v4" : wanted;
  if (most == "v4" && __builtin_cpu_supports("x86-64-v4") != 0) return Level::v4;
  if (most != "any" && __builtin_cpu_supports("x86-64-v3") != 0) return Level::v3;
#endif
  return Level::any;
}

template <class T, int kBytes>
struct Lanes {
  typedef T Vector __attribute__((vector_size(kBytes)));
  static constexpr int kCount = kBytes / static_cast<int>(sizeof(T));
};

// By reference: as values vectors would change the ABI of functions that are not compiled for them.
template <class V, class T>
PLEIAD_INLINE void load(V& v, const T* from) {
  std::memcpy(&v, from, sizeof v);
}
template <class V, class T>
PLEIAD_INLINE void store(T* to, const V& v) {
  std::memcpy(to, &v, sizeof v);
}

/// a's and b's lanes in turns: first of the lower halves, then of the upper ones.
template <class V, int... kIndex>
PLEIAD_INLINE void interleave(const V& a, const V& b, V& low, V& high, std::integer_sequence<int, kIndex...>) {
  constexpr int kCount = sizeof...(kIndex);
  low = __builtin_shufflevector(a, b, ((kIndex % 2) * kCount + kIndex / 2)...);
  high = __builtin_shufflevector(a, b, ((kIndex % 2) * kCount + kCount / 2 + kIndex / 2)...);
}

}  // namespace pleiad::kernel

// Runs the target that the variable FUZZ_TARGET names under libFuzzer.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string_view>

#include "tests/fuzz/target.h"

namespace {

const pleiad::fuzz::Target& chosen() {
  static const pleiad::fuzz::Target& target = [&]() -> const pleiad::fuzz::Target& {
    const char* const name = std::getenv("FUZZ_TARGET");
    for (const auto& one : pleiad::fuzz::targets()) {
      if (name != nullptr && std::string_view(one.name) == name) return one;
    }
    std::fprintf(stderr, "FUZZ_TARGET is one of these (and the longest input worth trying):");
    for (const auto& one : pleiad::fuzz::targets()) std::fprintf(stderr, " %s:%zu", one.name, one.longest);
    std::fprintf(stderr, "\n");
    std::_Exit(2);  // libFuzzer counts an exit as a crash of the target
  }();
  return target;
}

}  // namespace

#ifndef __SANITIZE_ADDRESS__
// Without the address sanitizer, libFuzzer cannot limit the size of an allocation.
extern "C" void* __libc_malloc(std::size_t bytes);
extern "C" void* __libc_calloc(std::size_t count, std::size_t bytes);
extern "C" void* __libc_realloc(void* memory, std::size_t bytes);

namespace {
std::size_t checked(std::size_t bytes) {
  constexpr std::size_t kLimit = std::size_t{256} << 20U;
  if (bytes > kLimit) {
    std::fprintf(stderr, "an allocation of %zu bytes; the limit is %zu\n", bytes, kLimit);
    std::abort();
  }
  return bytes;
}
}  // namespace

extern "C" void* malloc(std::size_t bytes) { return __libc_malloc(checked(bytes)); }
extern "C" void* calloc(std::size_t count, std::size_t bytes) {
  std::size_t all = 0;
  checked(__builtin_mul_overflow(count, bytes, &all) ? SIZE_MAX : all);
  return __libc_calloc(count, bytes);
}
extern "C" void* realloc(void* memory, std::size_t bytes) { return __libc_realloc(memory, checked(bytes)); }
#endif

/// Runs the target once, so that its one-time initialisation does not count for the first input.
extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  chosen().run({});
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  chosen().run(std::as_bytes(std::span(data, size)));
  return 0;
}

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

/// Runs the target once, so that its one-time initialisation does not count for the first input.
extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  chosen().run({});
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  chosen().run(std::as_bytes(std::span(data, size)));
  return 0;
}

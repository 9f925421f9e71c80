// Fuzz targets: one function per parser of bytes that may be damaged or hostile. The same functions run under libFuzzer
// (`make fuzz`) and, on the corpus and random changes of it, in the ordinary tests.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace pleiad::fuzz {

using Input = std::span<const std::byte>;

struct Target {
  const char* name;     ///< also the name of its folder under tests/fuzz/corpus
  void (*run)(Input);   ///< ends the process if the parser breaks its contract
  std::size_t longest;  ///< maximum useful length of an input, in bytes
};

/// The targets that are linked into this program.
[[nodiscard]] std::span<const Target> targets();

/// Runs `read`, which may throw an Error. The message of a FileError must be one printable line that contains `where`.
void expect_contract(std::string_view where, const std::function<void()>& read);

/// Returns the path of a file in memory that holds `bytes`. Each `slot` has one file, which the next call replaces.
[[nodiscard]] std::string file_of(Input bytes, int slot = 0);

inline std::string_view text_of(Input bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

}  // namespace pleiad::fuzz

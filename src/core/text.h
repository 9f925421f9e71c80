// Words for messages.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pleiad {

/// 7850 as "7,850".
[[nodiscard]] std::string grouped(std::int64_t number);

/// "4.2 GB", "128 KB", "17 bytes" (powers of 1,000).
[[nodiscard]] std::string byte_size(std::uint64_t bytes);

[[nodiscard]] std::string join(std::span<const std::string> words, std::string_view between = ", ");

/// Text of a file for a terminal: control characters as "\\x1b", so that they have no effect there. The
/// ends of lines stay where `lines` is true.
[[nodiscard]] std::string printable(std::string_view text, bool lines = false);

/// The known word nearest to `word`, or empty where none is near.
[[nodiscard]] std::string nearest(std::string_view word, std::span<const std::string> known);

/// unknown updater "adma"; known: adagrad, adam, sum (did you mean "adam"?)
[[nodiscard]] std::string unknown_name(std::string_view family, std::string_view word,
                                       std::span<const std::string> known);
/// Throws an InvalidArgument with the text of unknown_name unless `word` is one of `known`.
void require_known(std::string_view family, std::string_view word, const std::vector<std::string>& known);

}  // namespace pleiad

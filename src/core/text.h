// Formatting helpers for messages.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pleiad {

/// Formats 7850 as "7,850".
[[nodiscard]] std::string grouped(std::int64_t number);

/// Formats a size in powers of 1,000, such as "4.2 GB", "128 KB" or "17 bytes".
[[nodiscard]] std::string byte_size(std::uint64_t bytes);

[[nodiscard]] std::string join(std::span<const std::string> words, std::string_view between = ", ");

/// Makes text from a file safe for a terminal: replaces control characters by escapes such as "\\x1b". Keeps line feeds
/// if `lines` is true.
[[nodiscard]] std::string printable(std::string_view text, bool lines = false);

/// Returns the known word most similar to `word`, or an empty string if none is similar.
[[nodiscard]] std::string nearest(std::string_view word, std::span<const std::string> known);

/// Formats a message such as: unknown updater "adma"; known: adagrad, adam, sum (did you mean "adam"?)
[[nodiscard]] std::string unknown_name(std::string_view family, std::string_view word,
                                       std::span<const std::string> known);
/// Throws InvalidArgument with the message of unknown_name() unless `word` is one of `known`.
void require_known(std::string_view family, std::string_view word, const std::vector<std::string>& known);

}  // namespace pleiad

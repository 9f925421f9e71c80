#include "core/text.h"

#include <algorithm>

#include <fmt/format.h>

#include "pleiad/error.h"

namespace pleiad {

std::string grouped(std::int64_t number) {
  const std::string digits = std::to_string(number);
  const std::size_t first = number < 0 ? 1 : 0;
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > first && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string byte_size(std::uint64_t bytes) {
  if (bytes < 1000) return fmt::format("{} bytes", bytes);
  static constexpr const char* kUnits[] = {"KB", "MB", "GB", "TB", "PB"};
  auto value = static_cast<double>(bytes) / 1000;
  std::size_t unit = 0;
  for (; value >= 1000 && unit + 1 < std::size(kUnits); ++unit) value /= 1000;
  return fmt::format("{:.3g} {}", value, kUnits[unit]);
}

std::string join(std::span<const std::string> words, std::string_view between) {
  return fmt::format("{}", fmt::join(words.begin(), words.end(), between));
}

namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string printable(std::string_view text, bool lines) {
  std::string result;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if ((code < 0x20 && !(lines && c == '\n')) || code == 0x7F) {
      result += fmt::format("\\x{:02x}", code);
    } else {
      result += c;
    }
  }
  return result;
}

std::string nearest(std::string_view word, std::span<const std::string> known) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : known) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string unknown_name(std::string_view family, std::string_view word, std::span<const std::string> known) {
  // The word and the names may come from a file, in any length and number.
  constexpr std::size_t kLongestWord = 80;
  constexpr std::size_t kNamesShown = 100;
  const std::string near = nearest(word.substr(0, kLongestWord), known);
  const std::string all = join(known.first(std::min(known.size(), kNamesShown)));
  const std::string more =
      known.size() > kNamesShown ? fmt::format(" and {} more", known.size() - kNamesShown) : std::string();
  return printable(fmt::format("unknown {} \"{}\"; known: {}{}{}", family, word.substr(0, kLongestWord), all, more,
                               near.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", near)));
}

void require_known(std::string_view family, std::string_view word, const std::vector<std::string>& known) {
  if (std::ranges::find(known, word) == known.end()) throw InvalidArgument(unknown_name(family, word, known));
}

}  // namespace pleiad

// Damages files, for fuzzing.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace pleiad::test {

/// Makes a few random changes: flips bits, changes bytes, cuts, duplicates ranges, inserts extreme numbers.
inline std::string mutated(std::string text, std::mt19937& random) {
  static const std::vector<std::string> kWords = {
      "0",    "-1",  "1",  "9223372036854775807", "18446744073709551615", "1e9", "[", "]", "{", "}", "\"", ",", "null",
      "\xFF", "F64", "../"};
  for (auto changes = random() % 3 + 1; changes > 0; --changes) {
    if (text.empty()) return text;
    const std::size_t at = random() % text.size();
    const std::size_t length = std::min<std::size_t>(random() % 16, text.size() - at);
    switch (random() % 7) {
      case 0: text[at] = static_cast<char>(text[at] ^ (1 << random() % 8)); break;
      case 1: text[at] = static_cast<char>(random()); break;
      case 2: text.resize(at); break;
      case 3: text.erase(at, length); break;
      case 4: text.insert(at, text.substr(random() % text.size(), length)); break;
      case 5: text.replace(at, length, kWords[random() % kWords.size()]); break;
      default: text[random() % std::min<std::size_t>(8, text.size())] = static_cast<char>(random()); break;
    }
  }
  return text;
}

}  // namespace pleiad::test

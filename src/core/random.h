// Counter-based random numbers: every number is a function of a key and a counter, so any thread of any rank can
// compute any of them, in any order, with the same bits.
#pragma once

#include <array>
#include <cstdint>

namespace pleiad {

/// Philox4x32-10 (Salmon and others, "Parallel random numbers: as easy as 1, 2, 3").
struct Philox {
  using Block = std::array<std::uint32_t, 4>;
  using Key = std::array<std::uint32_t, 2>;

  Key key{};

  /// The key is the seed.
  static constexpr Philox seeded(std::uint64_t seed) {
    return {.key = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}};
  }

  /// The four numbers that belong to a counter.
  [[nodiscard]] constexpr Block operator()(Block counter) const {
    Key round_key = key;
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
      const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
      counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ round_key[0], static_cast<std::uint32_t>(b),
                 static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ round_key[1], static_cast<std::uint32_t>(a)};
      round_key[0] += 0x9E3779B9;
      round_key[1] += 0xBB67AE85;
    }
    return counter;
  }
};

/// A whole number in [0, bound) from 32 random bits; bound > 0. No value is likelier than another by more than bound /
/// 2^32.
constexpr std::uint32_t below(std::uint32_t bits, std::uint32_t bound) {
  return static_cast<std::uint32_t>((std::uint64_t{bits} * bound) >> 32);
}

}  // namespace pleiad

// Counter-based random numbers: every number is a function of a key and a counter, so any thread of any rank can
// compute any of them, in any order, with the same bits.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

#include "core/clones.h"

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
  [[nodiscard]] PLEIAD_INLINE constexpr Block operator()(Block counter) const {
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

/// One stream of numbers: keyed by a seed and a name, addressed by (step, sample, element).
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::string_view name) {
    std::uint64_t hash = 0xcbf29ce484222325 ^ seed;
    for (const char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
    hash ^= hash >> 29;
    philox_ = Philox::seeded(hash ^ seed);
  }
  /// The words of elements 4 * block to 4 * block + 3.
  PLEIAD_INLINE Philox::Block words(std::uint64_t block, std::uint32_t sample = 0, std::uint32_t step = 0) const {
    return philox_({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), sample, step});
  }
  /// What words() come of, for loops that make many at once.
  [[nodiscard]] const Philox& philox() const { return philox_; }
  /// In [0, 1).
  [[nodiscard]] double uniform(std::uint64_t element, std::uint32_t sample = 0, std::uint32_t step = 0) const {
    return words(element / 4, sample, step)[element % 4] * 0x1p-32;
  }
  /// Of mean 0 and variance 1.
  [[nodiscard]] double gaussian(std::uint64_t element, std::uint32_t sample = 0, std::uint32_t step = 0) const {
    const Philox::Block w = words(element / 2, sample, step);
    const std::size_t pair = element % 2 * 2;
    const double radius = std::sqrt(-2 * std::log((w[pair] + 1.0) * 0x1p-32));
    return radius * std::cos(2 * std::numbers::pi * (w[pair + 1] * 0x1p-32));
  }
  /// In [0, bound). bound > 0.
  [[nodiscard]] std::uint64_t below(std::uint64_t bound, std::uint64_t element, std::uint32_t step = 0) const {
    const Philox::Block w = words(element, 0, step);
    return ((std::uint64_t{w[0]} << 32) | w[1]) % bound;  // biased by less than bound / 2^64
  }

 private:
  Philox philox_;
};

}  // namespace pleiad

// Counter-based random numbers. Every number is a function of a key and a counter, so any thread of any rank can
// compute any of them in any order, with bit-identical results.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

#include "core/clones.h"

namespace pleiad {

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3").
struct Philox {
  using Block = std::array<std::uint32_t, 4>;
  using Key = std::array<std::uint32_t, 2>;

  Key key{};

  /// Uses the seed as the key.
  static constexpr Philox seeded(std::uint64_t seed) {
    return {.key = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}};
  }

  /// Returns the four random words of a counter.
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

/// Maps 32 random bits to an integer in [0, bound). Requires bound > 0. The probabilities of two values differ by at
/// most a factor of 1 + bound / 2^32.
constexpr std::uint32_t below(std::uint32_t bits, std::uint32_t bound) {
  return static_cast<std::uint32_t>((std::uint64_t{bits} * bound) >> 32);
}

/// A stream of random numbers. The seed and a name select the stream; (step, sample, element) selects a number.
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::string_view name) {
    std::uint64_t hash = 0xcbf29ce484222325 ^ seed;
    for (const char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
    hash ^= hash >> 29;
    philox_ = Philox::seeded(hash ^ seed);
  }
  /// Returns the random words of elements 4 * block to 4 * block + 3.
  PLEIAD_INLINE Philox::Block words(std::uint64_t block, std::uint32_t sample = 0, std::uint32_t step = 0) const {
    return philox_({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), sample, step});
  }
  /// The generator behind words(), for loops that compute many words at once.
  [[nodiscard]] const Philox& philox() const { return philox_; }
  /// Returns a number that is uniform in [0, 1).
  [[nodiscard]] double uniform(std::uint64_t element, std::uint32_t sample = 0, std::uint32_t step = 0) const {
    return words(element / 4, sample, step)[element % 4] * 0x1p-32;
  }
  /// Returns a normally distributed number with mean 0 and variance 1.
  [[nodiscard]] double gaussian(std::uint64_t element, std::uint32_t sample = 0, std::uint32_t step = 0) const {
    const Philox::Block w = words(element / 2, sample, step);
    const std::size_t pair = element % 2 * 2;
    const double radius = std::sqrt(-2 * std::log((w[pair] + 1.0) * 0x1p-32));
    return radius * std::cos(2 * std::numbers::pi * (w[pair + 1] * 0x1p-32));
  }
  /// Returns an integer in [0, bound). Requires bound > 0.
  [[nodiscard]] std::uint64_t below(std::uint64_t bound, std::uint64_t element, std::uint32_t step = 0) const {
    const Philox::Block w = words(element, 0, step);
    return ((std::uint64_t{w[0]} << 32) | w[1]) % bound;  // biased by less than bound / 2^64
  }

 private:
  Philox philox_;
};

}  // namespace pleiad

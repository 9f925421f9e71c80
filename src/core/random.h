// Counter-based random numbers (Philox 4x32, ten rounds): a number is a function of who asks for which, so threads,
// ranks and restarts draw the same ones.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

#include "core/clones.h"

namespace pleiad {

using Random4 = std::array<std::uint32_t, 4>;

/// The four words of one counter under one key.
PLEIAD_INLINE Random4 philox(Random4 counter, std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key0, static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key1, static_cast<std::uint32_t>(product0)};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return counter;
}

/// One stream of numbers: keyed by a seed and a name, addressed by (step, sample, element).
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::string_view name) {
    std::uint64_t hash = 0xcbf29ce484222325 ^ seed;
    for (const char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
    hash ^= hash >> 29;
    key0_ = static_cast<std::uint32_t>(hash) ^ static_cast<std::uint32_t>(seed);
    key1_ = static_cast<std::uint32_t>(hash >> 32) ^ static_cast<std::uint32_t>(seed >> 32);
  }
  /// The words of elements 4 * block to 4 * block + 3.
  PLEIAD_INLINE Random4 words(std::uint64_t block, std::uint32_t sample = 0, std::uint32_t step = 0) const {
    return philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), sample, step}, key0_,
                  key1_);
  }
  /// In [0, 1).
  [[nodiscard]] double uniform(std::uint64_t element, std::uint32_t sample = 0, std::uint32_t step = 0) const {
    return words(element / 4, sample, step)[element % 4] * 0x1p-32;
  }
  /// Of mean 0 and variance 1.
  [[nodiscard]] double gaussian(std::uint64_t element, std::uint32_t sample = 0, std::uint32_t step = 0) const {
    const Random4 w = words(element / 2, sample, step);
    const std::size_t pair = element % 2 * 2;
    const double radius = std::sqrt(-2 * std::log((w[pair] + 1.0) * 0x1p-32));
    return radius * std::cos(2 * std::numbers::pi * (w[pair + 1] * 0x1p-32));
  }
  /// In [0, bound). bound > 0.
  [[nodiscard]] std::uint64_t below(std::uint64_t bound, std::uint64_t element, std::uint32_t step = 0) const {
    const Random4 w = words(element, 0, step);
    return ((std::uint64_t{w[0]} << 32) | w[1]) % bound;  // biased by less than bound / 2^64
  }

 private:
  std::uint32_t key0_ = 0;
  std::uint32_t key1_ = 0;
};

}  // namespace pleiad

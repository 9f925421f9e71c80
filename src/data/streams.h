// The last word of a Philox counter identifies its use, so that different uses of one seed draw different numbers.
#pragma once

#include <cstdint>

namespace pleiad::data {

inline constexpr std::uint32_t kShuffleStream = 0x73687566;
inline constexpr std::uint32_t kAugmentStream = 0x61756767;

}  // namespace pleiad::data

// What the last word of a Philox counter stands for, so that no two uses of one seed draw the same numbers.
#pragma once

#include <cstdint>

namespace pleiad::data {

inline constexpr std::uint32_t kShuffleStream = 0x73687566;
inline constexpr std::uint32_t kAugmentStream = 0x61756767;

}  // namespace pleiad::data

// The sizes of CIFAR-10's binary records.
#pragma once

#include <cstdint>

namespace pleiad::data {

inline constexpr std::int64_t kCifarSide = 32;
inline constexpr std::int64_t kCifarPixels = kCifarSide * kCifarSide;
inline constexpr std::int64_t kCifarClasses = 10;
inline constexpr std::int64_t kCifarRecord = 1 + 3 * kCifarPixels;

}  // namespace pleiad::data

// Converts stored elements to float32, row by row.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pleiad/data.h"

namespace pleiad::data {

/// Computes out = (in - mean) * factor over `channels` planes of `rows` rows with `cols` elements. Pitches are in
/// elements.
struct PixelJob {
  const void* in = nullptr;  ///< contiguous
  FieldType type = FieldType::uint8;
  std::int64_t channels = 1;
  std::int64_t rows = 1;
  std::int64_t cols = 1;
  float* out = nullptr;
  std::int64_t out_row = 0;
  std::int64_t out_plane = 0;
  const float* mean = nullptr;  ///< of the first element, in the order of the file; never null
  const float* factor = nullptr;
  bool each = false;  ///< one mean and factor per pixel, with the pitches below; otherwise one per channel
  std::int64_t mean_row = 0;
  std::int64_t mean_plane = 0;
  bool mirror = false;  ///< reverse the order of each row
};

void convert_pixels(const PixelJob& job);

}  // namespace pleiad::data

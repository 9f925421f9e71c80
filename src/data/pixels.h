// From stored numbers to float32, row by row.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pleiad/data.h"

namespace pleiad::data {

/// out = (in - mean) * factor over `channels` planes of `rows` rows of `cols` numbers. Pitches are in elements.
struct PixelJob {
  const void* in = nullptr;  ///< dense
  FieldType type = FieldType::uint8;
  std::int64_t channels = 1;
  std::int64_t rows = 1;
  std::int64_t cols = 1;
  float* out = nullptr;
  std::int64_t out_row = 0;
  std::int64_t out_plane = 0;
  const float* mean = nullptr;  ///< of the first number, as the file has it; never null
  const float* factor = nullptr;
  bool each = false;  ///< one mean and factor a pixel, with the pitches below; otherwise one a channel
  std::int64_t mean_row = 0;
  std::int64_t mean_plane = 0;
  bool mirror = false;  ///< the first number of a row becomes the last
};

void convert_pixels(const PixelJob& job);

}  // namespace pleiad::data

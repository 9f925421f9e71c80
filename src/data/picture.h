// Decodes PNG and JPEG files and encodes PNG files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace pleiad::data {

struct Picture {
  std::int64_t channels = 0;  ///< 1 or 3
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::vector<std::uint8_t> pixels;  ///< {channels, height, width}
};

/// Decodes a file to `channels` 1 or 3, or to those of the file if 0. Transparent pixels are blended with black. Throws
/// a FileError that begins with `where` if the data is not a PNG or JPEG, or is truncated or damaged.
[[nodiscard]] Picture decode_picture(std::span<const std::byte> file, std::int64_t channels, const std::string& where);

/// Resizes an image. A new pixel is the average of the pixels that it covers; when enlarging, it is interpolated
/// between its neighbours.
[[nodiscard]] Picture scaled(const Picture& picture, std::int64_t height, std::int64_t width);

/// Encodes {channels, height, width} as a PNG. Requires 1 or 3 channels.
[[nodiscard]] std::string encode_png(std::span<const std::byte> pixels, std::int64_t channels, std::int64_t height,
                                     std::int64_t width);

}  // namespace pleiad::data

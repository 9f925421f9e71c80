// PNG and JPEG files to bytes, and back.
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

/// `channels` 1 or 3, or 0: as the file has it; what is transparent lies on black. A FileError that begins with `where`
/// for what is no PNG or JPEG, is truncated or damaged.
[[nodiscard]] Picture decode_picture(std::span<const std::byte> file, std::int64_t channels, const std::string& where);

/// To another size: each new pixel is the mean of what it covers, or lies between its neighbours where it is enlarged.
[[nodiscard]] Picture scaled(const Picture& picture, std::int64_t height, std::int64_t width);

/// {channels, height, width} as a PNG; channels 1 or 3.
[[nodiscard]] std::string encode_png(std::span<const std::byte> pixels, std::int64_t channels, std::int64_t height,
                                     std::int64_t width);

}  // namespace pleiad::data

// Copies of regions of images.
#pragma once

#include <cstddef>

#include "core/kernels.h"
#include "pleiad/dtype.h"
#include "pleiad/grid.h"

namespace pleiad {

/// A dense region of a batch of images: (batch, rows, columns, channels).
struct ImageBlock {
  char* data;
  Rect rect;
  std::size_t pixel_bytes;  ///< bytes of the channels of one pixel

  [[nodiscard]] std::size_t row_bytes() const { return static_cast<std::size_t>(rect.w.size()) * pixel_bytes; }
  [[nodiscard]] std::size_t image_bytes() const { return static_cast<std::size_t>(rect.h.size()) * row_bytes(); }
  [[nodiscard]] char* at(std::int64_t sample, std::int64_t h, std::int64_t w) const {
    return data + static_cast<std::size_t>(sample) * image_bytes() +
           static_cast<std::size_t>(h - rect.h.begin) * row_bytes() +
           static_cast<std::size_t>(w - rect.w.begin) * pixel_bytes;
  }
};

/// Calls each(pointer, length) for every row of `part`, a region of the block, of samples first to last - 1.
template <class Each>
void for_rows(const ImageBlock& block, const Rect& part, Interval samples, Each&& each) {
  if (part.empty()) return;
  const std::size_t length = static_cast<std::size_t>(part.w.size()) * block.pixel_bytes;
  for (std::int64_t n = samples.begin; n < samples.end; ++n) {
    for (std::int64_t h = part.h.begin; h < part.h.end; ++h) each(block.at(n, h, part.w.begin), length);
  }
}

/// Copies a region that both blocks contain from one to the other.
inline void copy_part(const ImageBlock& to, const ImageBlock& from, const Rect& part, Interval samples) {
  if (part.empty()) return;
  const std::size_t length = static_cast<std::size_t>(part.w.size()) * to.pixel_bytes;
  for (std::int64_t n = samples.begin; n < samples.end; ++n) {
    for (std::int64_t h = part.h.begin; h < part.h.end; ++h) {
      copy_bytes(to.at(n, h, part.w.begin), from.at(n, h, part.w.begin), length);
    }
  }
}

}  // namespace pleiad

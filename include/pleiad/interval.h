// A range of positions along one axis of an image.
#pragma once

#include <cstdint>

namespace pleiad {

/// The positions begin to end - 1. The range may extend below 0 and past the end of the image: that part is padding.
struct Interval {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  [[nodiscard]] bool empty() const { return end <= begin; }
  [[nodiscard]] std::int64_t size() const { return empty() ? 0 : end - begin; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

/// A window that slides along an axis, and the arithmetic of its lengths and positions.
struct SlidingWindow {
  std::int64_t size = 1;
  std::int64_t stride = 1;
  std::int64_t pad_begin = 0;
  std::int64_t pad_end = 0;
  std::int64_t dilation = 1;

  /// Returns the extent of the window in input positions, with dilation.
  [[nodiscard]] std::int64_t reach() const { return (size - 1) * dilation + 1; }
  /// Returns the number of whole windows that fit into `input` positions; 0 if none fits.
  [[nodiscard]] std::int64_t output(std::int64_t input) const {
    const std::int64_t room = input + pad_begin + pad_end - reach();
    return room < 0 ? 0 : room / stride + 1;
  }
  /// Returns the input positions that the output positions `out` depend on.
  [[nodiscard]] Interval input(Interval out) const {
    if (out.empty()) return {};
    return {out.begin * stride - pad_begin, (out.end - 1) * stride - pad_begin + reach()};
  }
};

}  // namespace pleiad

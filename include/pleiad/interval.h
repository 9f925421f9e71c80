// A range of places along one axis of an image.
#pragma once

#include <cstdint>

namespace pleiad {

/// Places begin to end - 1. May reach below 0 and past the image: that part is padding.
struct Interval {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  [[nodiscard]] bool empty() const { return end <= begin; }
  [[nodiscard]] std::int64_t size() const { return empty() ? 0 : end - begin; }
  friend bool operator==(const Interval&, const Interval&) = default;
};

/// A window that slides along an axis, and what it makes of lengths and places.
struct SlidingWindow {
  std::int64_t size = 1;
  std::int64_t stride = 1;
  std::int64_t pad_begin = 0;
  std::int64_t pad_end = 0;
  std::int64_t dilation = 1;

  /// How far the window reaches.
  [[nodiscard]] std::int64_t reach() const { return (size - 1) * dilation + 1; }
  /// How many whole windows fit: 0 or less where none does.
  [[nodiscard]] std::int64_t output(std::int64_t input) const {
    const std::int64_t room = input + pad_begin + pad_end - reach();
    return room < 0 ? 0 : room / stride + 1;
  }
  /// The inputs that the outputs need.
  [[nodiscard]] Interval input(Interval out) const {
    if (out.empty()) return {};
    return {out.begin * stride - pad_begin, (out.end - 1) * stride - pad_begin + reach()};
  }
};

}  // namespace pleiad

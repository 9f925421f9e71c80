// Which part of a parameter a rank holds.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "pleiad/interval.h"
#include "pleiad/tensor.h"

namespace pleiad {

/// Along each axis of the whole some runs of places, one behind the other in what is held: a rectangle where there is
/// one run an axis.
struct HeldPart {
  Shape whole;
  std::vector<std::vector<Interval>> runs;  ///< by axis
  bool writes = true;                       ///< false where another rank holds the same and saves it

  /// Places begin to begin + length - 1 of one axis.
  [[nodiscard]] static HeldPart along(const Shape& whole, int axis, std::vector<Interval> runs);
  [[nodiscard]] Shape shape() const;

  /// A rectangle of the whole, and where it lies in what is held.
  struct Box {
    std::vector<std::int64_t> begin;
    std::vector<std::int64_t> length;
    std::vector<std::int64_t> held;
    [[nodiscard]] std::int64_t count() const;
  };
  [[nodiscard]] std::vector<Box> boxes() const;
};

/// Copies between rectangles of arrays: `length` places from `to_begin` of an array of shape `to_shape`, and so on.
void copy_box(DType dtype, void* to, const Shape& to_shape, const std::vector<std::int64_t>& to_begin, const void* from,
              const Shape& from_shape, const std::vector<std::int64_t>& from_begin,
              const std::vector<std::int64_t>& length);

/// Copies what is held of `whole` into `part`.
void take_part(const HeldPart& held, const Tensor& whole, const Tensor& part);

}  // namespace pleiad

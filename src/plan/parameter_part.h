// Describes which part of a parameter a rank holds.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "pleiad/interval.h"
#include "pleiad/tensor.h"

namespace pleiad {

/// Along each axis, the part consists of intervals of the whole array; they are stored one after the other. With one
/// interval per axis the part is a box.
struct ParameterPart {
  Shape whole;
  std::vector<std::vector<Interval>> runs;  ///< the intervals, by axis
  bool writes = true;                       ///< false if another rank holds the same part and saves it

  /// Returns the part that has the intervals `runs` along `axis` and everything along the other axes.
  [[nodiscard]] static ParameterPart along(const Shape& whole, int axis, std::vector<Interval> runs);
  [[nodiscard]] Shape shape() const;

  /// A box of the whole array, and its position in the part: begin and length in the whole array, `held` in the part.
  struct Box {
    std::vector<std::int64_t> begin;
    std::vector<std::int64_t> length;
    std::vector<std::int64_t> held;
    [[nodiscard]] std::int64_t count() const;
  };
  [[nodiscard]] std::vector<Box> boxes() const;
};

/// Copies a box of `length` elements per axis from position `from_begin` of one array to position `to_begin` of
/// another.
void copy_box(DType dtype, void* to, const Shape& to_shape, const std::vector<std::int64_t>& to_begin, const void* from,
              const Shape& from_shape, const std::vector<std::int64_t>& from_begin,
              const std::vector<std::int64_t>& length);

/// Copies the part `held` of `whole` to `part`.
void extract_part(const ParameterPart& held, const Tensor& whole, const Tensor& part);

}  // namespace pleiad

#include "plan/parameter_part.h"

#include "core/kernels.h"

namespace pleiad {

ParameterPart ParameterPart::along(const Shape& whole, int axis, std::vector<Interval> runs) {
  ParameterPart part{.whole = whole, .runs = {}};
  for (int a = 0; a < whole.rank(); ++a) part.runs.push_back({{0, whole[a]}});
  part.runs[static_cast<std::size_t>(axis)] = std::move(runs);
  return part;
}

Shape ParameterPart::shape() const {
  Shape held = whole;
  for (int a = 0; a < whole.rank(); ++a) {
    std::int64_t length = 0;
    for (const Interval& run : runs[static_cast<std::size_t>(a)]) length += run.size();
    held.set(a, length);
  }
  return held;
}

std::int64_t ParameterPart::Box::count() const {
  std::int64_t product = 1;
  for (const std::int64_t n : length) product *= n;
  return product;
}

std::vector<ParameterPart::Box> ParameterPart::boxes() const {
  std::vector<Box> all = {{}};
  for (const std::vector<Interval>& axis : runs) {
    std::vector<Box> longer;
    for (const Box& box : all) {
      std::int64_t at = 0;
      for (const Interval& run : axis) {
        if (run.empty()) continue;
        Box next = box;
        next.begin.push_back(run.begin);
        next.length.push_back(run.size());
        next.held.push_back(at);
        longer.push_back(std::move(next));
        at += run.size();
      }
    }
    all = std::move(longer);
  }
  return all;
}

void copy_box(DType dtype, void* to, const Shape& to_shape, const std::vector<std::int64_t>& to_begin, const void* from,
              const Shape& from_shape, const std::vector<std::int64_t>& from_begin,
              const std::vector<std::int64_t>& length) {
  const int rank = to_shape.rank();
  const std::size_t size = size_of(dtype);
  if (rank == 0) return copy_bytes(to, from, size);
  const auto last = static_cast<std::size_t>(rank - 1);
  std::vector<std::int64_t> at(static_cast<std::size_t>(rank), 0);
  while (true) {
    std::int64_t to_at = 0;
    std::int64_t from_at = 0;
    for (std::size_t a = 0; a <= last; ++a) {
      to_at = to_at * to_shape[static_cast<int>(a)] + to_begin[a] + at[a];
      from_at = from_at * from_shape[static_cast<int>(a)] + from_begin[a] + at[a];
    }
    copy_bytes(static_cast<std::byte*>(to) + static_cast<std::size_t>(to_at) * size,
               static_cast<const std::byte*>(from) + static_cast<std::size_t>(from_at) * size,
               static_cast<std::size_t>(length[last]) * size);
    std::size_t axis = last;
    while (axis-- > 0) {
      if (++at[axis] < length[axis]) break;
      at[axis] = 0;
      if (axis == 0) return;
    }
    if (last == 0) return;
  }
}

void extract_part(const ParameterPart& held, const Tensor& whole, const Tensor& part) {
  for (const ParameterPart::Box& box : held.boxes()) {
    copy_box(whole.dtype(), part.raw(), part.shape(), box.held, whole.raw(), held.whole, box.begin, box.length);
  }
}

}  // namespace pleiad

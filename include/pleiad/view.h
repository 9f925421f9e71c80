// Non-owning views of values of any element type: the arguments of tables and collectives.
#pragma once

#include <cstdint>
#include <ranges>
#include <type_traits>

#include "pleiad/dtype.h"

namespace pleiad {

/// A read-only view. Converts from any contiguous range: a vector, an array, a span.
struct ConstView {
  const void* data = nullptr;
  std::int64_t count = 0;
  DType dtype = DType::float32;

  ConstView() = default;
  ConstView(const void* first, std::int64_t number, DType type) : data(first), count(number), dtype(type) {}
  template <std::ranges::contiguous_range R>
    requires Element<std::ranges::range_value_t<R>>
  ConstView(const R& range)  // NOLINT(google-explicit-constructor): a view stands for its range
      : ConstView(std::ranges::data(range), static_cast<std::int64_t>(std::ranges::size(range)),
                  dtype_of<std::ranges::range_value_t<R>>) {}
};

/// A writable view.
struct View {
  void* data = nullptr;
  std::int64_t count = 0;
  DType dtype = DType::float32;

  View() = default;
  View(void* first, std::int64_t number, DType type) : data(first), count(number), dtype(type) {}
  template <std::ranges::contiguous_range R>
    requires(Element<std::ranges::range_value_t<R>> &&
             !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>)
  View(R&& range)  // NOLINT(google-explicit-constructor): a view stands for its range
      : View(std::ranges::data(range), static_cast<std::int64_t>(std::ranges::size(range)),
             dtype_of<std::ranges::range_value_t<R>>) {}

  operator ConstView() const { return {data, count, dtype}; }  // NOLINT(google-explicit-constructor)
};

}  // namespace pleiad

// Views of Python arrays: NumPy, PyTorch, JAX, and any other array with the buffer protocol or DLPack. Nothing is
// copied or converted. Arrays that cannot be used in place are refused, with a message that says how to fix it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "pleiad/pleiad.hpp"

namespace pleiad::python {

namespace nb = nanobind;

enum class Access : std::uint8_t { read, write };

/// Keeps an array's memory alive for its own lifetime. Construct and destroy it with the GIL held.
class Borrowed {
 public:
  /// `where` is the prefix of error messages, such as "ArrayTable.add".
  Borrowed(nb::handle array, Access access, std::string_view where);
  ~Borrowed();
  Borrowed(Borrowed&& other) noexcept;
  Borrowed& operator=(Borrowed&&) = delete;

  [[nodiscard]] View view() const { return view_; }
  [[nodiscard]] const std::vector<std::int64_t>& shape() const { return shape_; }
  /// Throws InvalidArgument unless the array has this shape, or is flat with as many elements.
  void expect_rows(std::int64_t rows, std::int64_t cols, std::string_view where) const;

  /// Borrows a float16 or bfloat16 array for conversion. Writes the name of its type to `kind`.
  static Borrowed half(nb::handle array, Access access, std::string_view where, std::string& kind);

 private:
  Borrowed() = default;
  std::string open(nb::handle array, Access access, std::string_view where);  // returns the name of the element type
  std::string open_buffer(nb::handle array, Access access, std::string_view where);
  std::string open_dlpack(nb::handle array, Access access, std::string_view where);
  void measure(std::string_view where, const std::vector<std::int64_t>& strides);

  Py_buffer buffer_{};         // in use if buffer_.obj is set
  nb::ndarray<nb::ro> array_;  // in use otherwise
  View view_;
  std::vector<std::int64_t> shape_;
};

/// Formats a shape as Python does: (3, 4).
[[nodiscard]] std::string shape_text(const std::vector<std::int64_t>& shape);

void bind_arrays(nb::module_& m);

}  // namespace pleiad::python

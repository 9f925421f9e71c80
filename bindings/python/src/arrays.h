// Python's arrays as views: NumPy and all that has the buffer protocol, PyTorch, JAX and all that has DLPack. Nothing
// is copied or converted: what cannot be taken as it lies is refused, with the fix.
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

/// An array's memory, held for as long as this lives. Made and destroyed with the GIL held.
class Borrowed {
 public:
  /// `where` begins the message of an error: "ArrayTable.add".
  Borrowed(nb::handle array, Access access, std::string_view where);
  ~Borrowed();
  Borrowed(Borrowed&& other) noexcept;
  Borrowed& operator=(Borrowed&&) = delete;

  [[nodiscard]] View view() const { return view_; }
  [[nodiscard]] const std::vector<std::int64_t>& shape() const { return shape_; }
  /// Throws unless the array is flat or has this shape.
  void expect_rows(std::int64_t rows, std::int64_t cols, std::string_view where) const;

  /// The memory of an array of float16 or bfloat16 (`kind` says which), for the conversions.
  static Borrowed half(nb::handle array, Access access, std::string_view where, std::string& kind);

 private:
  Borrowed() = default;
  std::string open(nb::handle array, Access access, std::string_view where);  // the element's name
  std::string open_buffer(nb::handle array, Access access, std::string_view where);
  std::string open_dlpack(nb::handle array, Access access, std::string_view where);
  void measure(std::string_view where, const std::vector<std::int64_t>& strides);

  Py_buffer buffer_{};         // where buffer_.obj is set
  nb::ndarray<nb::ro> array_;  // else this holds it
  View view_;
  std::vector<std::int64_t> shape_;
};

/// (3, 4), as Python writes it.
[[nodiscard]] std::string shape_text(const std::vector<std::int64_t>& shape);

void bind_arrays(nb::module_& m);

}  // namespace pleiad::python

#include "arrays.h"

#include <optional>

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include "core/text.h"

namespace pleiad::python {

namespace {

std::string class_name(nb::handle object) { return nb::type_name(object.type()).c_str(); }

std::string attribute_text(nb::handle object, const char* name) {
  if (!nb::hasattr(object, name)) return {};
  return nb::str(nb::object(object.attr(name))).c_str();
}

// Describes an array by class and element type: "numpy.ndarray of float16".
std::string describe(nb::handle array) {
  const std::string dtype = attribute_text(array, "dtype");
  return dtype.empty() ? class_name(array) : fmt::format("{} of {}", class_name(array), dtype);
}

std::string element_name(char code, std::int64_t bytes) {
  switch (code) {
    case 'f':
    case 'd':
    case 'e': return fmt::format("float{}", bytes * 8);
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q': return fmt::format("int{}", bytes * 8);
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q': return fmt::format("uint{}", bytes * 8);
    case '?': return "bool";
    default: return fmt::format("format '{}'", code);
  }
}

std::string element_name(const nb::dlpack::dtype& type) {
  using Code = nb::dlpack::dtype_code;
  const char* family = "unknown";
  switch (static_cast<Code>(type.code)) {
    case Code::Int: family = "int"; break;
    case Code::UInt: family = "uint"; break;
    case Code::Float: family = "float"; break;
    case Code::Bfloat: family = "bfloat"; break;
    case Code::Complex: family = "complex"; break;
    case Code::Bool: return "bool";
    default: break;
  }
  return fmt::format("{}{}", family, type.bits);
}

std::optional<DType> dtype_named(std::string_view name) {
  for (const DType type : kDTypes) {
    if (name_of(type) == name) return type;
  }
  return std::nullopt;
}

// Returns the message of the Python error that is set, and clears the error.
std::string take_problem() {
  const nb::python_error problem;
  return fmt::format("{}: {}", nb::type_name(problem.type()).c_str(), nb::str(problem.value()).c_str());
}

}  // namespace

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t side : shape) text += fmt::format("{}{}", text.empty() ? "" : ", ", side);
  return fmt::format("({}{})", text, shape.size() == 1 ? "," : "");
}

Borrowed::Borrowed(nb::handle array, Access access, std::string_view where) {
  const std::string element = open(array, access, where);
  const std::optional<DType> type = dtype_named(element);
  if (!type) {
    const bool half = element == "float16" || element == "bfloat16";
    throw InvalidArgument(fmt::format(
        "[{}] expected float32, float64, int32 or int64; received {}{}", where, element,
        half ? "; convert it by pleiad.to_float32(x), and back by pleiad.from_float32(values, out=x)" : ""));
  }
  view_.dtype = *type;
}

Borrowed Borrowed::half(nb::handle array, Access access, std::string_view where, std::string& kind) {
  Borrowed borrowed;
  kind = borrowed.open(array, access, where);
  if (kind != "float16" && kind != "bfloat16") {
    throw InvalidArgument(fmt::format("[{}] expected float16 or bfloat16; received {}", where, kind));
  }
  return borrowed;
}

Borrowed::~Borrowed() {
  if (buffer_.obj != nullptr) PyBuffer_Release(&buffer_);
}

Borrowed::Borrowed(Borrowed&& other) noexcept
    : buffer_(other.buffer_), array_(std::move(other.array_)), view_(other.view_), shape_(std::move(other.shape_)) {
  other.buffer_ = {};
}

std::string Borrowed::open(nb::handle array, Access access, std::string_view where) {
  if (PyObject_CheckBuffer(array.ptr()) != 0) return open_buffer(array, access, where);
  if (nb::hasattr(array, "__dlpack__")) return open_dlpack(array, access, where);
  throw InvalidArgument(
      fmt::format("[{}] expected an array (NumPy, or anything with DLPack or the buffer protocol); received {}", where,
                  class_name(array)));
}

std::string Borrowed::open_buffer(nb::handle array, Access access, std::string_view where) {
  if (PyObject_GetBuffer(array.ptr(), &buffer_, PyBUF_FORMAT | PyBUF_STRIDES) != 0) {
    buffer_ = {};
    const std::string problem = take_problem();
    // bfloat16 arrays of JAX support DLPack only. They are read-only, but DLPack does not report that.
    if (access == Access::read && nb::hasattr(array, "__dlpack__")) return open_dlpack(array, access, where);
    throw InvalidArgument(fmt::format("[{}] cannot read the {}: {}", where, describe(array), problem));
  }
  if (access == Access::write && buffer_.readonly != 0) {
    throw InvalidArgument(
        fmt::format("[{}] expected a writable array; received a read-only {}", where, describe(array)));
  }
  shape_.assign(buffer_.shape, buffer_.shape + buffer_.ndim);
  std::vector<std::int64_t> strides(buffer_.strides, buffer_.strides + buffer_.ndim);
  for (auto& stride : strides) stride = buffer_.itemsize == 0 ? 0 : stride / buffer_.itemsize;
  view_.data = buffer_.buf;
  measure(where, strides);
  std::string_view format = buffer_.format == nullptr ? "B" : buffer_.format;
  if (!format.empty() && (format[0] == '<' || format[0] == '=' || format[0] == '@')) format.remove_prefix(1);
  if (format.size() != 1) return describe(array);  // structured types, or the other byte order
  return element_name(format[0], buffer_.itemsize);
}

std::string Borrowed::open_dlpack(nb::handle array, Access access, std::string_view where) {
  // nanobind reports only that the export failed; the array's own exception says why.
  const auto refuse = [&] {
    std::string why = "it cannot be exported";
    try {
      (void)array.attr("__dlpack__")();
    } catch (const nb::python_error& problem) {
      why = fmt::format("{}: {}", nb::type_name(problem.type()).c_str(), nb::str(problem.value()).c_str());
    }
    throw InvalidArgument(fmt::format("[{}] cannot {} the {}: {}", where, access == Access::read ? "read" : "write",
                                      describe(array), why));
  };
  if (access == Access::read) {
    if (!nb::try_cast(array, array_, false)) refuse();
  } else {
    nb::ndarray<> writable;
    if (!nb::try_cast(array, writable, false)) refuse();
    array_ = nb::ndarray<nb::ro>(writable);
  }
  if (array_.device_type() != nb::device::cpu::value) {
    throw InvalidArgument(
        fmt::format("[{}] expected an array in host memory; received a {} on a device; copy it to the CPU first", where,
                    describe(array)));
  }
  std::vector<std::int64_t> strides;
  for (std::size_t i = 0; i < array_.ndim(); ++i) {
    shape_.push_back(static_cast<std::int64_t>(array_.shape(i)));
    strides.push_back(array_.stride(i));
  }
  view_.data = const_cast<void*>(array_.data());  // NOLINT: written to only if a writable array was requested
  measure(where, strides);
  return element_name(array_.dtype());
}

void Borrowed::measure(std::string_view where, const std::vector<std::int64_t>& strides) {
  view_.count = 1;
  for (const std::int64_t side : shape_) view_.count *= side;
  std::int64_t expected = 1;
  for (std::size_t i = shape_.size(); i-- > 0 && view_.count > 0;) {
    if (shape_[i] != 1 && strides[i] != expected) {
      throw InvalidArgument(fmt::format(
          "[{}] expected a contiguous array in C order; received one of shape {} with strides {} (in elements); "
          "make a contiguous copy with numpy.ascontiguousarray(x) or x.contiguous()",
          where, shape_text(shape_), shape_text(strides)));
    }
    expected *= shape_[i];
  }
}

void Borrowed::expect_rows(std::int64_t rows, std::int64_t cols, std::string_view where) const {
  const bool flat = shape_.size() == 1;
  if (view_.count == rows * cols && (flat || (shape_.size() == 2 && shape_[0] == rows && shape_[1] == cols))) return;
  throw InvalidArgument(fmt::format(
      "[{}] {} rows of {} elements: expected shape ({}, {}), or a flat array of {} elements; received shape {}", where,
      grouped(rows), grouped(cols), rows, cols, grouped(rows * cols), shape_text(shape_)));
}

void bind_arrays(nb::module_& m) {
  m.def(
      "half_bits",
      [](nb::handle array, bool write) {
        std::string kind;
        auto* const borrowed = new Borrowed(
            Borrowed::half(array, write ? Access::write : Access::read, write ? "from_float32" : "to_float32", kind));
        const nb::capsule owner(borrowed, [](void* p) noexcept { delete static_cast<Borrowed*>(p); });
        std::vector<std::size_t> shape(borrowed->shape().begin(), borrowed->shape().end());
        nb::ndarray<nb::numpy, std::uint16_t> bits(borrowed->view().data, shape.size(), shape.data(), owner);
        return nb::make_tuple(nb::cast(bits), kind);
      },
      nb::arg("array").none(), nb::arg("write"),
      "Returns a uint16 view of the bits of a float16 or bfloat16 array, and the name of its type.",
      nb::sig("def half_bits(array: object, write: bool) -> tuple[numpy.typing.NDArray[numpy.uint16], str]"));
}

}  // namespace pleiad::python

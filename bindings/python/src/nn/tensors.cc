#include "nn/tensors.h"

#include <fmt/format.h>
#include <nanobind/stl/string.h>

#include "arrays.h"
#include "pleiad/error.h"

namespace pleiad::python {

namespace {

nb::dlpack::dtype element_of(DType type) {
  switch (type) {
    case DType::float32: return nb::dtype<float>();
    case DType::float64: return nb::dtype<double>();
    case DType::int32: return nb::dtype<std::int32_t>();
    case DType::int64: return nb::dtype<std::int64_t>();
  }
  return nb::dtype<float>();
}

}  // namespace

nb::object array_of(const Tensor& tensor) {
  const nb::capsule owner(new Tensor(tensor), [](void* p) noexcept { delete static_cast<Tensor*>(p); });
  const std::vector<std::size_t> shape(tensor.shape().begin(), tensor.shape().end());
  return nb::cast(
      nb::ndarray<nb::numpy>(tensor.raw(), shape.size(), shape.data(), owner, nullptr, element_of(tensor.dtype())));
}

nb::dict arrays_of(const std::vector<std::pair<std::string, Tensor>>& tensors) {
  nb::dict out;
  for (const auto& [name, tensor] : tensors) out[name.c_str()] = array_of(tensor);
  return out;
}

Tensor tensor_of(nb::handle array, std::string_view where) {
  auto borrowed = std::make_unique<Borrowed>(array, Access::read, where);
  const View view = borrowed->view();
  const auto& sides = borrowed->shape();
  if (sides.size() > Shape::kMaxRank) {
    throw InvalidArgument(
        fmt::format("[{}] expected at most {} axes; received shape {}", where, Shape::kMaxRank, shape_text(sides)));
  }
  // Any thread may release the last reference.
  const std::shared_ptr<void> owner(borrowed.release(), [](void* p) {
    if (Py_IsInitialized() == 0) return;
    const nb::gil_scoped_acquire acquire;
    delete static_cast<Borrowed*>(p);
  });
  return {view.dtype, Shape(std::span<const std::int64_t>(sides)), view.data, owner};
}

std::vector<std::pair<std::string, Tensor>> tensors_of(const nb::dict& arrays, const char* where) {
  std::vector<std::pair<std::string, Tensor>> all;
  for (const auto& [name, array] : arrays) {
    const std::string key = nb::cast<std::string>(name);
    all.emplace_back(key, tensor_of(array, fmt::format("{}: \"{}\"", where, key)));
  }
  return all;
}

}  // namespace pleiad::python

#include "pleiad/tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "core/kernels.h"
#include "pleiad/error.h"

namespace pleiad {

Shape::Shape(std::initializer_list<std::int64_t> lengths) : Shape(std::span(lengths.begin(), lengths.size())) {}

Shape::Shape(std::span<const std::int64_t> lengths) {
  if (lengths.size() > static_cast<std::size_t>(kMaxRank)) {
    throw InvalidArgument(fmt::format("a shape has at most {} axes; received {}", kMaxRank, lengths.size()));
  }
  for (const std::int64_t length : lengths) {
    if (length < 0)
      throw InvalidArgument(fmt::format("the lengths of a shape must not be negative; received {}", length));
    lengths_[static_cast<std::size_t>(rank_++)] = length;
  }
}

std::int64_t Shape::count(int begin, int end) const {
  std::int64_t product = 1;
  for (int axis = begin; axis < end; ++axis) product *= (*this)[axis];
  return product;
}

Shape Shape::with_batch(std::int64_t length) const {
  std::array<std::int64_t, kMaxRank + 1> lengths{};
  lengths[0] = length;
  std::copy(begin(), end(), lengths.begin() + 1);
  return Shape(std::span<const std::int64_t>(lengths.data(), static_cast<std::size_t>(rank_ + 1)));
}

Shape Shape::sample() const {
  if (rank_ == 0) return {};
  return Shape(std::span<const std::int64_t>(begin() + 1, end()));
}

std::string Shape::text() const { return fmt::format("({})", fmt::join(begin(), end(), ", ")); }

Tensor::Tensor(DType dtype, const Shape& shape) : dtype_(dtype), shape_(shape) {
  constexpr std::size_t kAlign = 64;
  const std::size_t size = std::max<std::size_t>(kAlign, (bytes() + kAlign - 1) / kAlign * kAlign);
  void* memory = std::aligned_alloc(kAlign, size);
  if (memory == nullptr) throw MemoryError(fmt::format("cannot allocate a tensor of {} bytes", size));
  std::memset(memory, 0, size);
  owner_ = std::shared_ptr<void>(memory, std::free);
  data_ = memory;
}

Tensor::Tensor(DType dtype, const Shape& shape, void* data, std::shared_ptr<void> owner)
    : dtype_(dtype), shape_(shape), data_(data), owner_(std::move(owner)) {}

std::size_t Tensor::bytes() const { return static_cast<std::size_t>(count()) * size_of(dtype_); }

void Tensor::check(DType wanted) const {
  if (wanted != dtype_) {
    throw InvalidArgument(fmt::format("this tensor holds {}; it was accessed as {}", name_of(dtype_), name_of(wanted)));
  }
}

View Tensor::view() const { return {data_, count(), dtype_}; }

Tensor Tensor::reshaped(const Shape& shape) const {
  if (shape.count() != count()) {
    throw InvalidArgument(fmt::format("a tensor of shape {} cannot be reshaped to {}", shape_.text(), shape.text()));
  }
  Tensor other = *this;
  other.shape_ = shape;
  return other;
}

Tensor Tensor::clone() const {
  Tensor other(dtype_, shape_);
  copy_bytes(other.data_, data_, bytes());
  return other;
}

void Tensor::fill(double value) const {
  const auto run = [&]<class T>(T) { std::ranges::fill(values<T>(), static_cast<T>(value)); };
  switch (dtype_) {
    case DType::float32: return run(float{});
    case DType::float64: return run(double{});
    case DType::int32: return run(std::int32_t{});
    case DType::int64: return run(std::int64_t{});
  }
}

void Tensor::copy_from(const Tensor& from) const {
  if (from.dtype_ != dtype_ || from.count() != count()) {
    throw InvalidArgument(fmt::format("expected {} of shape {}; received {} of shape {}", name_of(dtype_),
                                      shape_.text(), name_of(from.dtype_), from.shape_.text()));
  }
  copy_bytes(data_, from.data_, bytes());
}

double Tensor::at(std::int64_t index) const {
  if (index < 0 || index >= count()) {
    throw InvalidArgument(fmt::format("index {} is out of range for a tensor of {} elements", index, count()));
  }
  const auto i = static_cast<std::size_t>(index);
  switch (dtype_) {
    case DType::float32: return values<float>()[i];
    case DType::float64: return values<double>()[i];
    case DType::int32: return values<std::int32_t>()[i];
    case DType::int64: return static_cast<double>(values<std::int64_t>()[i]);
  }
  return 0;
}

}  // namespace pleiad

// Shapes, and dense arrays with a shape: the data that nets compute with.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>

#include "pleiad/api.h"
#include "pleiad/dtype.h"
#include "pleiad/view.h"

namespace pleiad {

/// Up to six axis lengths. The last axis varies fastest in memory; images are (batch, height, width, channels).
class PLEIAD_API Shape {
 public:
  static constexpr int kMaxRank = 6;
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> lengths);
  explicit Shape(std::span<const std::int64_t> lengths);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] std::int64_t operator[](int axis) const { return lengths_[static_cast<std::size_t>(axis)]; }
  void set(int axis, std::int64_t length) { lengths_[static_cast<std::size_t>(axis)] = length; }
  /// Returns the number of elements; 1 for a shape without axes.
  [[nodiscard]] std::int64_t count() const { return count(0, rank_); }
  /// Returns the product of the lengths of axes begin to end - 1.
  [[nodiscard]] std::int64_t count(int begin, int end) const;
  /// with_batch() returns this shape with `length` as a new first axis; sample() returns it without its first axis.
  [[nodiscard]] Shape with_batch(std::int64_t length) const;
  [[nodiscard]] Shape sample() const;
  /// Returns text such as "(64, 28, 28, 1)".
  [[nodiscard]] std::string text() const;
  [[nodiscard]] const std::int64_t* begin() const { return lengths_.data(); }
  [[nodiscard]] const std::int64_t* end() const { return lengths_.data() + rank_; }
  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<std::int64_t, kMaxRank> lengths_{};
  int rank_ = 0;
};

/// A dense array, 64-byte aligned if it owns its memory. Copying a Tensor copies the handle: all copies share the
/// elements, and the memory lives as long as any of them.
class PLEIAD_API Tensor {
 public:
  Tensor() = default;
  /// Allocates a tensor of zeros.
  Tensor(DType dtype, const Shape& shape);
  /// Wraps existing memory. The memory must outlive this tensor and its copies, unless `owner` keeps it alive.
  Tensor(DType dtype, const Shape& shape, void* data, std::shared_ptr<void> owner = nullptr);

  [[nodiscard]] bool empty() const { return data_ == nullptr; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] std::int64_t count() const { return shape_.count(); }
  [[nodiscard]] std::size_t bytes() const;
  [[nodiscard]] void* raw() const { return data_; }
  /// Throws if T is not the tensor's element type.
  template <class T>
  [[nodiscard]] std::span<T> values() const {
    check(dtype_of<T>);
    return {static_cast<T*>(data_), static_cast<std::size_t>(count())};
  }
  [[nodiscard]] View view() const;
  /// Returns a tensor that shares these elements and has another shape with the same number of elements.
  [[nodiscard]] Tensor reshaped(const Shape& shape) const;
  [[nodiscard]] Tensor clone() const;
  void fill(double value) const;
  /// Requires that `from` has the same element type and number of elements.
  void copy_from(const Tensor& from) const;
  /// Returns the element at `index` as a double.
  [[nodiscard]] double at(std::int64_t index) const;

 private:
  void check(DType wanted) const;
  DType dtype_ = DType::float32;
  Shape shape_;
  void* data_ = nullptr;
  std::shared_ptr<void> owner_;  // shared ownership: in Python, views of a net's memory outlive the net
};

}  // namespace pleiad

// A block of bytes that copies of a Blob share.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>

namespace multiverso {

/// Copies of a Blob share its bytes; CopyFrom makes a new block.
class Blob {
 public:
  Blob() : size_(0) {}
  /// Allocates `size` zero bytes.
  explicit Blob(std::size_t size) : data_(new char[size](), std::default_delete<char[]>()), size_(size) {}
  /// Copies `size` bytes from `data`.
  Blob(const void* data, std::size_t size) : Blob(size) {
    if (size > 0) std::memcpy(data_.get(), data, size);
  }
  Blob(void* data, std::size_t size) : Blob(static_cast<const void*>(data), size) {}

  char operator[](std::size_t i) const { return data_.get()[i]; }
  /// Returns the i-th element of type T.
  template <typename T>
  T& As(std::size_t i = 0) const {
    return reinterpret_cast<T*>(data_.get())[i];
  }
  template <typename T>
  std::size_t size() const {
    return size_ / sizeof(T);
  }
  std::size_t size() const { return size_; }
  char* data() const { return data_.get(); }
  void CopyFrom(const Blob& other) { *this = Blob(static_cast<const void*>(other.data()), other.size()); }

 private:
  std::shared_ptr<char> data_;
  std::size_t size_;
};

}  // namespace multiverso

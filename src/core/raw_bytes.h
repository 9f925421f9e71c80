// Bytes that are about to be written: making them does not touch them, and many of them come in large pages, so that
// writing them the first time costs little more than writing them again.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace pleiad {

template <class T>
struct Untouched : std::allocator<T> {
  template <class U>
  struct rebind {
    using other = Untouched<U>;
  };
  [[nodiscard]] T* allocate(std::size_t count) {
    if (count < kMany / sizeof(T)) return std::allocator<T>::allocate(count);
    void* place = ::operator new(count * sizeof(T), std::align_val_t(kPage));
    (void)madvise(place, count * sizeof(T), MADV_HUGEPAGE);
    return static_cast<T*>(place);
  }
  void deallocate(T* place, std::size_t count) noexcept {
    if (count < kMany / sizeof(T)) return std::allocator<T>::deallocate(place, count);
    ::operator delete(place, std::align_val_t(kPage));
  }
  template <class U>
  void construct(U* place) noexcept {
    ::new (static_cast<void*>(place)) U;
  }

 private:
  static constexpr std::size_t kPage = std::size_t{2} << 20;
  static constexpr std::size_t kMany = 2 * kPage;
};

using RawBytes = std::vector<std::byte, Untouched<std::byte>>;

/// Bytes that were used before and will be again: their pages are there. On a virtual machine, whose host takes back
/// what lies idle, a first touch costs ten times as much as the copy.
class SpareBytes {
 public:
  /// Empty, with room for this many, and not for more than twice as many if it was used before.
  [[nodiscard]] RawBytes take(std::size_t capacity) {
    auto best = spare_.end();
    for (auto it = spare_.begin(); it != spare_.end(); ++it) {
      if (it->capacity() >= capacity && it->capacity() / 2 <= capacity &&
          (best == spare_.end() || it->capacity() < best->capacity()))
        best = it;
    }
    RawBytes bytes;
    if (best != spare_.end()) {
      bytes = std::move(*best);
      spare_.erase(best);
    }
    bytes.clear();
    bytes.reserve(capacity);
    return bytes;
  }
  void give(RawBytes bytes) {
    if (bytes.capacity() > 0) spare_.push_back(std::move(bytes));
  }
  /// What nobody took goes back to the system.
  void drop() { spare_.clear(); }

 private:
  std::vector<RawBytes> spare_;
};

}  // namespace pleiad

// Buffers for bytes that will be overwritten. Allocating one does not touch the memory, and large ones use huge pages,
// which makes the first write almost as fast as later ones.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace pleiad {

template <class T>
struct DefaultInitAllocator : std::allocator<T> {
  template <class U>
  struct rebind {
    using other = DefaultInitAllocator<U>;
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

using RawBytes = std::vector<std::byte, DefaultInitAllocator<std::byte>>;

/// A pool of used buffers, whose pages are already mapped. On a virtual machine whose host reclaims idle memory, the
/// first touch of a page costs ten times as much as the copy. Not thread-safe.
class BufferPool {
 public:
  /// Returns an empty buffer with at least this capacity. A reused one has at most about twice this capacity.
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
  /// Frees the buffers in the pool.
  void drop() { spare_.clear(); }

 private:
  std::vector<RawBytes> spare_;
};

}  // namespace pleiad

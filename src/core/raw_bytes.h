// Bytes that are about to be written: making them does not touch them, and many of them come in large pages, so that
// writing them the first time costs little more than writing them again.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <memory>
#include <new>
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

}  // namespace pleiad

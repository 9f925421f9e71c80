// Bytes that are about to be written: making them does not touch them.
#pragma once

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
  template <class U>
  void construct(U* place) noexcept {
    ::new (static_cast<void*>(place)) U;
  }
};

using RawBytes = std::vector<std::byte, Untouched<std::byte>>;

}  // namespace pleiad

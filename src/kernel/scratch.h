// Thread-local memory that later calls reuse, so that a step allocates nothing.
#pragma once

#include "pleiad/tensor.h"

namespace pleiad::kernel {

/// Returns memory of the calling thread for at least `count` elements, 64-byte aligned. It is valid until the thread's
/// next call for the same Use. The contents are lost if the memory must grow.
template <class Use, class T>
T* scratch(std::int64_t count) {
  thread_local Tensor memory;
  if (memory.empty() || memory.count() < count) memory = Tensor(dtype_of<T>, {count});
  return static_cast<T*>(memory.raw());
}

}  // namespace pleiad::kernel

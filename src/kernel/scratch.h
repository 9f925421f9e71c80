// Memory of a thread that its next calls use again, so that a step allocates nothing.
#pragma once

#include "pleiad/tensor.h"

namespace pleiad::kernel {

/// At least `count` numbers of the calling thread, 64-byte aligned; they last until its next call for the same Use.
/// What is in them is lost where they must grow.
template <class Use, class T>
T* scratch(std::int64_t count) {
  thread_local Tensor memory;
  if (memory.empty() || memory.count() < count) memory = Tensor(dtype_of<T>, {count});
  return static_cast<T*>(memory.raw());
}

}  // namespace pleiad::kernel

// Memory for the arrays that Pleiad returns. It is aligned to 64 bytes, because JAX copies other arrays. Freed blocks
// are reused for arrays of the same size, because touching fresh pages costs more than filling them.
#pragma once

#include <cstddef>

#include <nanobind/nanobind.h>

namespace pleiad::python {

/// A block of memory with the buffer protocol. The GIL guards the list of free blocks.
class Memory {
 public:
  explicit Memory(std::size_t bytes);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_;
  void* data_;
};

void bind_memory(nanobind::module_& m);

}  // namespace pleiad::python

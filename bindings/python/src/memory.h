// Memory for the arrays that Pleiad hands out: 64-byte aligned (JAX copies otherwise), and kept for the next one of the
// same size, since touching fresh pages costs more than filling them.
#pragma once

#include <cstddef>

#include <nanobind/nanobind.h>

namespace pleiad::python {

/// A piece of memory that is an object with the buffer protocol. The GIL guards what is kept.
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

#include "memory.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include <fmt/format.h>

#include "core/text.h"
#include "pleiad/error.h"

namespace pleiad::python {

namespace nb = nanobind;

namespace {

constexpr std::size_t kAlignment = 64;
// Smaller blocks come from pages that the allocator has already touched.
constexpr std::size_t kLeastKept = std::size_t{16} << 10;
constexpr std::size_t kMostKept = std::size_t{128} << 20;
constexpr std::size_t kMostPieces = 32;

struct Piece {
  void* data;
  std::size_t bytes;
};

// Oldest first. Never destroyed, because arrays may live until the process ends.
struct Kept {
  std::vector<Piece> pieces;
  std::size_t bytes = 0;
};

Kept& kept() {
  static auto* const all = new Kept;
  return *all;
}

std::size_t whole_lines(std::size_t bytes) {
  return (std::max<std::size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
}

void* take(std::size_t bytes) {
  auto& pieces = kept().pieces;
  // The block that was freed last is most likely still in the cache.
  const auto found = std::find_if(pieces.rbegin(), pieces.rend(), [&](const Piece& p) { return p.bytes == bytes; });
  if (found == pieces.rend()) return std::aligned_alloc(kAlignment, bytes);
  void* const data = found->data;
  kept().bytes -= bytes;
  pieces.erase(std::next(found).base());
  return data;
}

void give_back(void* data, std::size_t bytes) {
  if (bytes < kLeastKept || bytes > kMostKept / 2) {
    std::free(data);
    return;
  }
  auto& all = kept();
  all.pieces.push_back({data, bytes});
  all.bytes += bytes;
  while (all.bytes > kMostKept || all.pieces.size() > kMostPieces) {
    std::free(all.pieces.front().data);
    all.bytes -= all.pieces.front().bytes;
    all.pieces.erase(all.pieces.begin());
  }
}

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  const auto& memory = *nb::inst_ptr<Memory>(self);
  return PyBuffer_FillInfo(view, self, memory.data(), static_cast<Py_ssize_t>(memory.bytes()), 0, flags);
}

PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {0, nullptr}};

}  // namespace

Memory::Memory(std::size_t bytes) : bytes_(bytes), data_(take(whole_lines(bytes))) {
  if (data_ == nullptr) throw MemoryError(fmt::format("cannot allocate an array of {}", byte_size(bytes)));
}

Memory::~Memory() { give_back(data_, whole_lines(bytes_)); }

void bind_memory(nb::module_& m) {
  nb::class_<Memory>(m, "Memory", nb::type_slots(slots),
                     "Memory aligned to 64 bytes, with the buffer protocol for numpy.frombuffer.")
      .def(nb::init<std::size_t>(), nb::arg("bytes"));
}

}  // namespace pleiad::python

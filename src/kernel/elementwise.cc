#include "kernel/elementwise.h"

#include <algorithm>

#include "core/kernels.h"
#include "core/threads.h"

namespace pleiad::kernel {
namespace {
constexpr std::int64_t kGrain = 16384;
}

void add(const Tensor& to, const Tensor& from) {
  const std::size_t size = size_of(to.dtype());
  parallel_for(to.count(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    const std::size_t skip = static_cast<std::size_t>(begin) * size;
    add_to(to.dtype(), static_cast<std::byte*>(to.raw()) + skip, static_cast<const std::byte*>(from.raw()) + skip,
           static_cast<std::size_t>(end - begin));
  });
}

void copy(const Tensor& to, const Tensor& from) {
  const std::size_t size = size_of(to.dtype());
  parallel_for(to.count(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    const std::size_t skip = static_cast<std::size_t>(begin) * size;
    copy_bytes(static_cast<std::byte*>(to.raw()) + skip, static_cast<const std::byte*>(from.raw()) + skip,
               static_cast<std::size_t>(end - begin) * size);
  });
}

void copy_strided(void* to, std::size_t to_stride, const void* from, std::size_t from_stride, std::size_t bytes,
                  std::int64_t rows) {
  const auto grain = std::max<std::int64_t>(1, 65536 / std::max<std::int64_t>(static_cast<std::int64_t>(bytes), 1));
  parallel_for(rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (auto r = static_cast<std::size_t>(begin); r < static_cast<std::size_t>(end); ++r) {
      copy_bytes(static_cast<std::byte*>(to) + r * to_stride, static_cast<const std::byte*>(from) + r * from_stride,
                 bytes);
    }
  });
}

}  // namespace pleiad::kernel

#include "kernel/blas/gemm.h"

#include <algorithm>
#include <cstddef>

#include "core/threads.h"
#include "kernel/blas/library.h"
#include "kernel/types.h"

namespace pleiad::kernel {
namespace {

constexpr std::int64_t kGrain = 16;     // columns or rows of one kernel step
constexpr double kSplitFrom = 400'000;  // products below which a second thread does not pay

const std::byte* at(const Operand& o, std::int64_t row, std::int64_t column, std::size_t size) {
  const std::int64_t index = o.transposed ? column * o.stride + row : row * o.stride + column;
  return static_cast<const std::byte*>(o.data) + static_cast<std::size_t>(index) * size;
}

}  // namespace

void need_gemm() { (void)blas(); }

void gemm_here(DType dtype, const Product& p, const Operand& a, const Operand& b, void* c, std::int64_t c_stride) {
  if (p.m == 0 || p.n == 0) return;
  const auto trans = [](const Operand& o) { return o.transposed ? CblasTrans : CblasNoTrans; };
  const auto i = [](std::int64_t n) { return static_cast<blasint>(n); };
  by_type(dtype, [&]<class T>(T) {
    const auto call = [&](auto routine) {
      routine(CblasRowMajor, trans(a), trans(b), i(p.m), i(p.n), i(p.k), static_cast<T>(p.alpha),
              static_cast<const T*>(a.data), i(a.stride), static_cast<const T*>(b.data), i(b.stride),
              static_cast<T>(p.beta), static_cast<T*>(c), i(c_stride));
    };
    if constexpr (std::is_same_v<T, float>) {
      call(blas().sgemm);
    } else {
      call(blas().dgemm);
    }
  });
}

void gemm(DType dtype, const Product& p, const Operand& a, const Operand& b, void* c, std::int64_t c_stride) {
  const double work = static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  const bool by_rows = p.m > p.n;
  const std::int64_t whole = by_rows ? p.m : p.n;
  const std::int64_t grain = work < kSplitFrom ? whole : kGrain;
  const std::size_t size = size_of(dtype);
  parallel_for(whole, std::max<std::int64_t>(grain, 1), [&](std::int64_t first, std::int64_t last) {
    Product part = p;
    Operand pa = a;
    Operand pb = b;
    std::int64_t offset = first;
    if (by_rows) {
      part.m = last - first;
      pa.data = at(a, first, 0, size);
      offset = first * c_stride;
    } else {
      part.n = last - first;
      pb.data = at(b, 0, first, size);
    }
    gemm_here(dtype, part, pa, pb, static_cast<std::byte*>(c) + static_cast<std::size_t>(offset) * size, c_stride);
  });
}

}  // namespace pleiad::kernel

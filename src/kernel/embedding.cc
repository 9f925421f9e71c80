#include "kernel/embedding.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "core/threads.h"
#include "kernel/types.h"

namespace pleiad::kernel {

void check_indices(const Tensor& index, std::int64_t count) {
  const auto all = index.values<std::int32_t>();
  const auto bad = std::ranges::find_if(all, [&](std::int32_t i) { return i < 0 || i >= count; });
  if (bad == all.end()) return;
  const std::int64_t row = index.count() / index.shape()[0];
  const std::int64_t at = bad - all.begin();
  throw InvalidArgument(fmt::format("sample {}, position {}: expected an index from 0 to {}; received {}", at / row,
                                    at % row, count - 1, *bad));
}

void embed(const Tensor& index, const Tensor& table, const Tensor& y) {
  check_indices(index, table.shape()[0]);
  const std::int64_t width = table.shape()[1];
  by_type(table.dtype(), [&]<class T>(T) {
    parallel_for(index.count(), std::max<std::int64_t>(1, 8192 / width), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        std::copy_n(data<T>(table) + data<std::int32_t>(index)[i] * width, width, data<T>(y) + i * width);
      }
    });
  });
}

void embed_backward(const Tensor& index, const Tensor& dy, const Tensor& gradient) {
  const std::int64_t width = gradient.shape()[1];
  gradient.fill(0);
  by_type(dy.dtype(), [&]<class T>(T) {
    parallel_for(width, 16, [&](std::int64_t first, std::int64_t last) {  // each thread owns some columns of all rows
      for (std::int64_t i = 0; i < index.count(); ++i) {
        T* to = data<T>(gradient) + data<std::int32_t>(index)[i] * width;
        const T* from = data<T>(dy) + i * width;
        for (std::int64_t c = first; c < last; ++c) to[c] += from[c];
      }
    });
  });
}

void one_hot(const Tensor& index, std::int64_t count, double value, const Tensor& y) {
  check_indices(index, count);
  y.fill(0);
  by_type(y.dtype(), [&]<class T>(T) {
    for (std::int64_t i = 0; i < index.count(); ++i) {
      data<T>(y)[i * count + data<std::int32_t>(index)[i]] = static_cast<T>(value);
    }
  });
}

void argsort(const Tensor& x, const Tensor& index) {
  const std::int64_t count = index.shape()[index.shape().rank() - 1];
  const std::int64_t rows = index.count() / count;
  const std::int64_t width = x.count() / rows;
  by_type(x.dtype(), [&]<class T>(T) {
    parallel_for(rows, std::max<std::int64_t>(1, 4096 / width), [&](std::int64_t begin, std::int64_t end) {
      thread_local std::vector<std::int32_t> order;
      order.resize(static_cast<std::size_t>(width));
      for (std::int64_t r = begin; r < end; ++r) {
        const T* row = data<T>(x) + r * width;
        std::iota(order.begin(), order.end(), 0);
        std::partial_sort(order.begin(), order.begin() + count, order.end(), [&](std::int32_t a, std::int32_t b) {
          return row[a] > row[b] || (row[a] == row[b] && a < b);
        });
        std::copy_n(order.begin(), count, data<std::int32_t>(index) + r * count);
      }
    });
  });
}

}  // namespace pleiad::kernel

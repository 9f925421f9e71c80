#include "kernel/local_conv.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "core/clones.h"
#include "core/threads.h"
#include "kernel/blas/gemm.h"
#include "kernel/types.h"

namespace pleiad::kernel {
namespace {

// Outputs are computed column by column. A column of all images needs the strip (batch, padded height, w.size *
// channels). In the strip, the window of each output row is contiguous, so each position is one product without
// gathering.

/// The output columns [first, last) of one thread.
struct Band {
  std::int64_t first, last;
};

std::int64_t bands_of(const LocalConv& c) {
  const double work = static_cast<double>(c.batch) * static_cast<double>(c.out_h * c.out_w * c.maps * c.filter());
  return work < 200'000 ? 1 : std::clamp<std::int64_t>(compute_threads(), 1, c.out_w);
}
Band band_of(const LocalConv& c, std::int64_t index, std::int64_t count) {
  return {c.out_w * index / count, c.out_w * (index + 1) / count};
}

std::int64_t strip_rows(const LocalConv& c) { return (c.out_h - 1) * c.h.stride + c.h.size; }
std::int64_t strip_row(const LocalConv& c) { return c.w.size * c.channels; }
std::int64_t strip_image(const LocalConv& c) { return strip_rows(c) * strip_row(c); }

/// Returns `count` elements of this thread's scratch buffer, 64-byte aligned.
template <class T>
T* room(std::vector<std::byte>& memory, std::int64_t count) {
  memory.resize(std::max(memory.size(), static_cast<std::size_t>(count) * sizeof(T) + 64));
  void* first = memory.data();
  std::size_t space = memory.size();
  return static_cast<T*>(std::align(64, static_cast<std::size_t>(count) * sizeof(T), first, space));
}

/// The part of a window's columns that is inner_columns the image, in positions of the window.
struct InnerColumns {
  std::int64_t begin, end, column;
};
InnerColumns inner_columns(const LocalConv& c, std::int64_t out_column, std::int64_t in_w) {
  const std::int64_t column = out_column * c.w.stride - c.w.pad_begin;
  const std::int64_t begin = std::clamp<std::int64_t>(-column, 0, c.w.size);
  return {begin, std::clamp<std::int64_t>(in_w - column, begin, c.w.size), column};
}

template <class T>
void take_strip(const LocalConv& c, const T* x, std::int64_t out_column, T* strip) {
  const InnerColumns in = inner_columns(c, out_column, c.in_w);
  const std::int64_t rows = strip_rows(c);
  const std::int64_t row = strip_row(c);
  const bool whole = in.begin == 0 && in.end == c.w.size;
  for (std::int64_t n = 0; n < c.batch; ++n) {
    for (std::int64_t r = 0; r < rows; ++r) {
      T* to = strip + (n * rows + r) * row;
      const std::int64_t y = r - c.h.pad_begin;
      if (!whole || y < 0 || y >= c.in_h) std::fill_n(to, row, T(0));
      if (y < 0 || y >= c.in_h) continue;
      const T* from = x + ((n * c.in_h + y) * c.in_w + in.column + in.begin) * c.channels;
      std::copy_n(from, (in.end - in.begin) * c.channels, to + in.begin * c.channels);
    }
  }
}

template <class T>
struct AddRun {
  const T* from;
  T* to;
  std::int64_t count;
};
template <class T>
PLEIAD_INLINE void add_run(const AddRun<T>& r) {
  T* __restrict to = r.to;
  for (std::int64_t i = 0; i < r.count; ++i) to[i] += r.from[i];
}
PLEIAD_CLONES void run_add(const AddRun<float>& r) { add_run(r); }
PLEIAD_CLONES void run_add(const AddRun<double>& r) { add_run(r); }

/// Adds a strip to the images. `x` has the columns from `begin` to `begin` + `width` of the images.
template <class T>
void give_strip(const LocalConv& c, const T* strip, std::int64_t out_column, T* x, std::int64_t begin,
                std::int64_t width) {
  const InnerColumns in = inner_columns(c, out_column, c.in_w);
  const std::int64_t rows = strip_rows(c);
  const std::int64_t row = strip_row(c);
  for (std::int64_t n = 0; n < c.batch; ++n) {
    for (std::int64_t r = std::max<std::int64_t>(c.h.pad_begin, 0); r < rows; ++r) {
      const std::int64_t y = r - c.h.pad_begin;
      if (y >= c.in_h) break;
      run_add(AddRun<T>{strip + (n * rows + r) * row + in.begin * c.channels,
                        x + ((n * c.in_h + y) * width + in.column + in.begin - begin) * c.channels,
                        (in.end - in.begin) * c.channels});
    }
  }
}

/// Computes the gradient of one position's filters, maps x filter, and passes it to the update or stores it.
template <class T>
void place_gradient(const LocalConv& c, std::int64_t place, const Operand& y, const Operand& windows, T* weight,
                    const LocalGradient& to, std::vector<T>& tile) {
  const std::int64_t filter = c.filter();
  const std::int64_t at = place * c.maps * filter;
  Product p{.m = c.maps, .n = filter, .k = c.batch};
  const Operand left{.data = y.data, .stride = y.stride, .transposed = true};
  if (to.update == nullptr) {
    gemm_here(dtype_of<T>, p, left, windows, data<T>(to.weight_gradient) + at, filter);
    return;
  }
  if (const auto linear = to.update->linear()) {
    p.alpha = linear->factor;
    p.beta = linear->keep;
    gemm_here(dtype_of<T>, p, left, windows, weight + at, filter);
    return;
  }
  tile.resize(static_cast<std::size_t>(c.maps * filter));
  gemm_here(dtype_of<T>, p, left, windows, tile.data(), filter);
  to.update->apply(at, c.maps * filter, tile.data());
}

/// Returns the outputs of a position.
template <class T>
T* outputs_of_position(const LocalConv& c, T* y, std::int64_t place) {
  return y + place * c.maps;
}

template <class T>
void transposed_band(const LocalConv& c, const Band& band, const T* y, T* weight, T* x, std::int64_t begin,
                     std::int64_t width, const T* x_given, const LocalGradient& to, std::vector<std::byte>& memory) {
  thread_local std::vector<T> tile;
  const std::int64_t image = strip_image(c);
  const bool gradient = to.update != nullptr || !to.weight_gradient.empty();
  T* given = room<T>(memory, 2 * c.batch * image);
  T* made = given + c.batch * image;
  if (x != nullptr) std::fill_n(x, c.batch * c.in_h * width * c.channels, T(0));
  for (std::int64_t ow = band.first; ow < band.last; ++ow) {
    if (gradient) take_strip(c, x_given, ow, given);
    if (x != nullptr) std::fill_n(made, c.batch * image, T(0));
    for (std::int64_t oh = 0; oh < c.out_h; ++oh) {
      const std::int64_t place = oh * c.out_w + ow;
      const std::int64_t window = oh * c.h.stride * strip_row(c);
      const Operand rows{.data = outputs_of_position(c, y, place), .stride = c.out_h * c.out_w * c.maps};
      if (x != nullptr) {
        gemm_here(dtype_of<T>, {.m = c.batch, .n = c.filter(), .k = c.maps, .beta = 1}, rows,
                  {.data = weight + place * c.maps * c.filter(), .stride = c.filter()}, made + window, image);
      }
      if (gradient) place_gradient(c, place, rows, {.data = given + window, .stride = image}, weight, to, tile);
    }
    if (x != nullptr) give_strip(c, made, ow, x, begin, width);
  }
}

}  // namespace

void local_apply(const LocalConv& c, const Tensor& x, const Tensor& weight, const Tensor& y, LocalConvMemory& memory) {
  const std::int64_t bands = bands_of(c);
  memory.thread.resize(std::max(memory.thread.size(), static_cast<std::size_t>(bands)));
  by_type(x.dtype(), [&]<class T>(T) {
    parallel_for(bands, 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t b = first; b < last; ++b) {
        T* strip = room<T>(memory.thread[static_cast<std::size_t>(b)], c.batch * strip_image(c));
        const Band band = band_of(c, b, bands);
        for (std::int64_t ow = band.first; ow < band.last; ++ow) {
          take_strip(c, data<T>(x), ow, strip);
          for (std::int64_t oh = 0; oh < c.out_h; ++oh) {
            const std::int64_t place = oh * c.out_w + ow;
            gemm_here(dtype_of<T>, {.m = c.batch, .n = c.maps, .k = c.filter()},
                      {.data = strip + oh * c.h.stride * strip_row(c), .stride = strip_image(c)},
                      {.data = data<T>(weight) + place * c.maps * c.filter(), .stride = c.filter(), .transposed = true},
                      outputs_of_position(c, data<T>(y), place), c.out_h * c.out_w * c.maps);
          }
        }
      }
    });
  });
}

void local_transposed(const LocalConv& c, const Tensor& y, const Tensor& weight, const Tensor& x, const Tensor& x_given,
                      const LocalGradient& to, LocalConvMemory& memory) {
  const std::int64_t bands = bands_of(c);
  memory.thread.resize(std::max(memory.thread.size(), static_cast<std::size_t>(2 * bands)));
  const auto columns = [&](std::int64_t b) {  // image columns that a band adds to
    const Band band = band_of(c, b, bands);
    const Interval in = c.w.input({band.first, band.last});
    return Interval{std::max<std::int64_t>(in.begin, 0), std::min(in.end, c.in_w)};
  };
  by_type(y.dtype(), [&]<class T>(T) {
    const auto sums = [&](std::int64_t b) {
      return room<T>(memory.thread[static_cast<std::size_t>(bands + b)],
                     c.batch * c.in_h * columns(b).size() * c.channels);
    };
    parallel_for(bands, 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t b = first; b < last; ++b) {
        const bool alone = bands == 1;
        T* own = x.empty() ? nullptr : alone ? data<T>(x) : sums(b);
        transposed_band(c, band_of(c, b, bands), data<T>(y), data<T>(weight), own, alone ? 0 : columns(b).begin,
                        alone ? c.in_w : columns(b).size(), data<T>(x_given), to,
                        memory.thread[static_cast<std::size_t>(b)]);
      }
    });
    if (x.empty() || bands == 1) return;
    parallel_for(c.batch * c.in_h, 16, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t row = first; row < last; ++row) {
        T* out = data<T>(x) + row * c.in_w * c.channels;
        std::fill_n(out, c.in_w * c.channels, T(0));
        for (std::int64_t b = 0; b < bands; ++b) {
          const Interval in = columns(b);
          run_add(
              AddRun<T>{sums(b) + row * in.size() * c.channels, out + in.begin * c.channels, in.size() * c.channels});
        }
      }
    });
  });
}

}  // namespace pleiad::kernel

#include "data/pixels.h"

#include "core/clones.h"
#include "pleiad/error.h"

namespace pleiad::data {

namespace {

// Uses a subtraction and a multiplication that are never fused, so that the result is bit-identical on every processor.
template <class T, bool Each, bool Mirror>
PLEIAD_INLINE void convert_pixels(const PixelJob& job) {
  const T* __restrict in = static_cast<const T*>(job.in);
  for (std::int64_t c = 0; c < job.channels; ++c) {
    for (std::int64_t y = 0; y < job.rows; ++y, in += job.cols) {
      float* __restrict out = job.out + c * job.out_plane + y * job.out_row;
      const std::int64_t n = job.cols;
      if constexpr (Each) {
        const float* __restrict mean = job.mean + c * job.mean_plane + y * job.mean_row;
        const float* __restrict factor = job.factor + c * job.mean_plane + y * job.mean_row;
        for (std::int64_t x = 0; x < n; ++x) {
          const std::int64_t from = Mirror ? n - 1 - x : x;
          out[x] = (static_cast<float>(in[from]) - mean[from]) * factor[from];
        }
      } else {
        const float mean = job.mean[c];
        const float factor = job.factor[c];
        for (std::int64_t x = 0; x < n; ++x) {
          out[x] = (static_cast<float>(in[Mirror ? n - 1 - x : x]) - mean) * factor;
        }
      }
    }
  }
}

template <class T>
PLEIAD_INLINE void convert_as(const PixelJob& job) {
  if (job.each) {
    job.mirror ? convert_pixels<T, true, true>(job) : convert_pixels<T, true, false>(job);
  } else {
    job.mirror ? convert_pixels<T, false, true>(job) : convert_pixels<T, false, false>(job);
  }
}

PLEIAD_CLONES void convert_uint8(const PixelJob& job) { convert_as<std::uint8_t>(job); }
PLEIAD_CLONES void convert_float32(const PixelJob& job) { convert_as<float>(job); }
void convert_float64(const PixelJob& job) { convert_as<double>(job); }
void convert_int32(const PixelJob& job) { convert_as<std::int32_t>(job); }
void convert_int64(const PixelJob& job) { convert_as<std::int64_t>(job); }

}  // namespace

void convert_pixels(const PixelJob& job) {
  switch (job.type) {
    case FieldType::uint8: return convert_uint8(job);
    case FieldType::float32: return convert_float32(job);
    case FieldType::float64: return convert_float64(job);
    case FieldType::int32: return convert_int32(job);
    case FieldType::int64: return convert_int64(job);
  }
  throw InternalError("a field of an unknown type");
}

}  // namespace pleiad::data

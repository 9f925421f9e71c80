// Convolution by definition.
#include "kernel/conv.h"

#include <algorithm>

#include "core/threads.h"
#include "kernel/types.h"

namespace pleiad::kernel {
namespace {

class LoopConvPlan final : public ConvPlan {
 public:
  LoopConvPlan(const Conv& conv, DType dtype) : c_(conv), dtype_(dtype) {}

  void forward(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y) override {
    by_type(dtype_, [&]<class T>(T) {
      parallel_for(c_.batch * c_.out_h, 1, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t row = first; row < last; ++row) {
          for (std::int64_t j = 0; j < c_.out_w; ++j) {
            for (std::int64_t o = 0; o < c_.out_c; ++o) {
              T sum = c_.bias ? data<T>(bias)[o] : T(0);
              taps(row / c_.out_h, row % c_.out_h, j, o, [&](std::int64_t in, std::int64_t w, std::int64_t count) {
                for (std::int64_t k = 0; k < count; ++k) sum += data<T>(x)[in + k] * data<T>(weight)[w + k];
              });
              data<T>(y)[(row * c_.out_w + j) * c_.out_c + o] = sum;
            }
          }
        }
      });
    });
    activate_columns(dtype_, c_.activation, y.raw(), nullptr, c_.batch * c_.out_h * c_.out_w, c_.out_c, 0, c_.out_c);
  }

  void backward(const Tensor& x, const Tensor& weight, const Tensor& dy, const Tensor& dx,
                const Tensor& weight_gradient, const Tensor& bias_gradient) override {
    by_type(dtype_, [&]<class T>(T) {
      if (!dx.empty()) {
        dx.fill(0);
        parallel_for(c_.batch, 1, [&](std::int64_t first, std::int64_t last) {
          outputs<T>(dy, first, last, 0, c_.out_c, [&](T d, std::int64_t in, std::int64_t w, std::int64_t count) {
            for (std::int64_t k = 0; k < count; ++k) data<T>(dx)[in + k] += d * data<T>(weight)[w + k];
          });
        });
      }
      if (weight_gradient.empty()) return;
      weight_gradient.fill(0);
      if (c_.bias) bias_gradient.fill(0);
      parallel_for(c_.out_c, 1, [&](std::int64_t first, std::int64_t last) {
        outputs<T>(dy, 0, c_.batch, first, last, [&](T d, std::int64_t in, std::int64_t w, std::int64_t count) {
          for (std::int64_t k = 0; k < count; ++k) data<T>(weight_gradient)[w + k] += d * data<T>(x)[in + k];
        });
        for (std::int64_t p = 0; c_.bias && p < c_.batch * c_.out_h * c_.out_w; ++p) {
          for (std::int64_t o = first; o < last; ++o) data<T>(bias_gradient)[o] += data<T>(dy)[p * c_.out_c + o];
        }
      });
    });
  }

 private:
  /// Calls tap(index in x, index in weight, channels) for each position of the window that is inside the image.
  template <class Tap>
  void taps(std::int64_t n, std::int64_t i, std::int64_t j, std::int64_t o, Tap&& tap) const {
    const std::int64_t in = c_.in_c / c_.groups;
    const std::int64_t group = o / (c_.out_c / c_.groups);
    for (std::int64_t u = 0; u < c_.h.size; ++u) {
      const std::int64_t row = i * c_.h.stride - c_.h.pad_begin + u * c_.h.dilation;
      if (row < 0 || row >= c_.in_h) continue;
      for (std::int64_t v = 0; v < c_.w.size; ++v) {
        const std::int64_t column = j * c_.w.stride - c_.w.pad_begin + v * c_.w.dilation;
        if (column < 0 || column >= c_.in_w) continue;
        tap(((n * c_.in_h + row) * c_.in_w + column) * c_.in_c + group * in, ((o * c_.h.size + u) * c_.w.size + v) * in,
            in);
      }
    }
  }
  /// Calls tap(gradient of the output, ...) for all taps of all outputs of some images and channels.
  template <class T, class Tap>
  void outputs(const Tensor& dy, std::int64_t n0, std::int64_t n1, std::int64_t o0, std::int64_t o1, Tap&& tap) const {
    for (std::int64_t n = n0; n < n1; ++n) {
      for (std::int64_t i = 0; i < c_.out_h; ++i) {
        for (std::int64_t j = 0; j < c_.out_w; ++j) {
          for (std::int64_t o = o0; o < o1; ++o) {
            const T d = data<T>(dy)[((n * c_.out_h + i) * c_.out_w + j) * c_.out_c + o];
            taps(n, i, j, o, [&](std::int64_t in, std::int64_t w, std::int64_t count) { tap(d, in, w, count); });
          }
        }
      }
    }
  }

  const Conv c_;
  const DType dtype_;
};

}  // namespace

std::unique_ptr<ConvPlan> plan_conv_by_loops(const Conv& conv, DType dtype) {
  return std::make_unique<LoopConvPlan>(conv, dtype);
}

}  // namespace pleiad::kernel

// Exponentials that compilers can vectorise: plain arithmetic without calls. Accurate to 2 units in the last place in
// float.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "core/clones.h"

namespace pleiad::kernel {

PLEIAD_INLINE float exp_of(float x) {
  // Beyond these limits, the result is 0 or infinity up to a factor that does not matter for nets.
  x = x > 88.0F ? 88.0F : x;
  x = x < -87.0F ? -87.0F : x;
  const float n = std::floor(x * 1.44269504F + 0.5F);
  float r = x - n * 0.693359375F;
  r = r + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const float y = p * r * r + r + 1.0F;
  const std::int32_t bits = (static_cast<std::int32_t>(n) + 127) << 23;
  return y * std::bit_cast<float>(bits);
}
PLEIAD_INLINE double exp_of(double x) { return std::exp(x); }

PLEIAD_INLINE float tanh_of(float x) {
  const float a = std::fabs(x);
  const float e = exp_of(2 * (a > 9.0F ? 9.0F : a));
  const float large = 1 - 2 / (e + 1);
  const float s = x * x;  // avoids cancellation near 0 in the difference above
  float p = -5.70498872745e-3F;
  p = p * s + 2.06390887954e-2F;
  p = p * s - 5.37397155531e-2F;
  p = p * s + 1.33314422036e-1F;
  p = p * s - 3.33332819422e-1F;
  const float small = p * s * x + x;
  const float signed_large = x < 0 ? -large : large;
  const float y = a < 0.625F ? small : signed_large;
  return x != x ? x : y;
}
PLEIAD_INLINE double tanh_of(double x) { return std::tanh(x); }

template <class T>
PLEIAD_INLINE T sigmoid_of(T x) {
  const T e = exp_of(x < 0 ? x : -x);  // never overflows
  const T y = x < 0 ? e / (1 + e) : 1 / (1 + e);
  return x != x ? x : y;
}

}  // namespace pleiad::kernel

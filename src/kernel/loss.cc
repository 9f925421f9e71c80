#include "kernel/loss.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/clones.h"
#include "core/threads.h"
#include "kernel/math.h"
#include "kernel/types.h"

namespace pleiad::kernel {
namespace {

// block size of sums; fixed, so that results are bit-identical for any number of threads
constexpr std::int64_t kBlock = 4096;

template <class T>
PLEIAD_INLINE void softmax_row(const T* x, T* y, std::int64_t n) {
  T top = x[0];
  for (std::int64_t i = 1; i < n; ++i) top = x[i] > top ? x[i] : top;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) y[i] = exp_of(x[i] - top);
  T sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += y[i];
  const T by = 1 / sum;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) y[i] *= by;
}
PLEIAD_CLONES void run_softmax(const float* x, float* y, std::int64_t n) { softmax_row(x, y, n); }
PLEIAD_CLONES void run_softmax(const double* x, double* y, std::int64_t n) { softmax_row(x, y, n); }

template <class T>
PLEIAD_INLINE void difference_loop(const T* x, const T* t, T factor, T* dx, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) dx[i] = factor * (x[i] - t[i]);
}
PLEIAD_CLONES void run_difference(const float* x, const float* t, float f, float* dx, std::int64_t n) {
  difference_loop(x, t, f, dx, n);
}
PLEIAD_CLONES void run_difference(const double* x, const double* t, double f, double* dx, std::int64_t n) {
  difference_loop(x, t, f, dx, n);
}

// Uses eight partial sums, so that the order is fixed and the loop still vectorises.
template <class T>
PLEIAD_INLINE double distance_loop(const T* x, const T* t, std::int64_t n) {
  T sums[8] = {};
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int k = 0; k < 8; ++k) {
      const T d = x[i + k] - t[i + k];
      sums[k] += d * d;
    }
  }
  double sum = 0;
  for (; i < n; ++i) sum += static_cast<double>(x[i] - t[i]) * static_cast<double>(x[i] - t[i]);
  for (const T s : sums) sum += static_cast<double>(s);
  return sum;
}
PLEIAD_CLONES double run_distance(const float* x, const float* t, std::int64_t n) { return distance_loop(x, t, n); }
PLEIAD_CLONES double run_distance(const double* x, const double* t, std::int64_t n) { return distance_loop(x, t, n); }

template <class T>
PLEIAD_INLINE void sigmoid_difference_loop(const T* x, const T* t, T factor, T* dx, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) dx[i] = factor * (sigmoid_of(x[i]) - t[i]);
}
PLEIAD_CLONES void run_sigmoid(const float* x, const float* t, float f, float* dx, std::int64_t n) {
  sigmoid_difference_loop(x, t, f, dx, n);
}
PLEIAD_CLONES void run_sigmoid(const double* x, const double* t, double f, double* dx, std::int64_t n) {
  sigmoid_difference_loop(x, t, f, dx, n);
}

std::int64_t last_axis(const Tensor& t) { return t.shape()[t.shape().rank() - 1]; }

/// Adds up part(begin, end) over the blocks of `count` elements, in order.
template <class Part>
double sum_blocks(std::int64_t count, Part&& part) {
  thread_local std::vector<double> sums;
  sums.assign(static_cast<std::size_t>((count + kBlock - 1) / kBlock), 0);
  double* const to = sums.data();
  parallel_for(count, kBlock, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; b += kBlock) to[b / kBlock] = part(b, std::min(b + kBlock, end));
  });
  double whole = 0;
  for (const double s : sums) whole += s;
  return whole;
}

std::int64_t rows_grain(std::int64_t columns) {
  return std::max<std::int64_t>(1, 4096 / std::max<std::int64_t>(columns, 1));
}

}  // namespace

void softmax(const Tensor& x, const Tensor& y) {
  const std::int64_t n = last_axis(x);
  by_type(x.dtype(), [&]<class T>(T) {
    parallel_for(x.count() / n, rows_grain(n), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) run_softmax(data<T>(x) + r * n, data<T>(y) + r * n, n);
    });
  });
}

void softmax_backward(const Tensor& y, const Tensor& dy, const Tensor& dx) {
  const std::int64_t n = last_axis(y);
  by_type(y.dtype(), [&]<class T>(T) {
    parallel_for(y.count() / n, rows_grain(n), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const T* p = data<T>(y) + r * n;
        const T* d = data<T>(dy) + r * n;
        T* to = data<T>(dx) + r * n;
        T dot = 0;
        for (std::int64_t i = 0; i < n; ++i) dot += p[i] * d[i];
        for (std::int64_t i = 0; i < n; ++i) to[i] = p[i] * (d[i] - dot);
      }
    });
  });
}

double softmax_loss(const Tensor& score, const Tensor& label, const Tensor& probability, std::int64_t top_k,
                    double& accuracy) {
  const std::int64_t n = last_axis(score);
  const std::int64_t rows = score.count() / n;
  const std::int32_t* labels = data<std::int32_t>(label);
  for (std::int64_t r = 0; r < rows; ++r) {
    if (labels[r] < 0 || labels[r] >= n) {
      throw InvalidArgument(
          fmt::format("the label of sample {} is {}; {} classes have labels 0 to {}", r, labels[r], n, n - 1));
    }
  }
  softmax(score, probability);
  double loss = 0;
  std::int64_t right = 0;
  by_type(score.dtype(), [&]<class T>(T) {
    for (std::int64_t r = 0; r < rows; ++r) {
      const T* x = data<T>(score) + r * n;
      const T p = data<T>(probability)[r * n + labels[r]];
      // This form keeps NaN, and a probability that underflows gives a large loss instead of an infinite one.
      loss -= std::log(static_cast<double>(p < std::numeric_limits<T>::min() ? std::numeric_limits<T>::min() : p));
      right += among_top(x, n, labels[r], top_k) ? 1 : 0;
    }
  });
  accuracy = static_cast<double>(right) / static_cast<double>(rows);
  return loss / static_cast<double>(rows);
}

void softmax_loss_backward(const Tensor& probability, const Tensor& label, double factor, const Tensor& dx) {
  const std::int64_t n = last_axis(probability);
  by_type(dx.dtype(), [&]<class T>(T) {
    const T f = static_cast<T>(factor);
    for (std::int64_t i = 0; i < dx.count(); ++i) data<T>(dx)[i] = f * data<T>(probability)[i];
    for (std::int64_t r = 0; r < dx.count() / n; ++r) data<T>(dx)[r * n + data<std::int32_t>(label)[r]] -= f;
  });
}

double sigmoid_loss(const Tensor& x, const Tensor& target) {
  double sum = 0;
  by_type(x.dtype(), [&]<class T>(T) {
    sum = sum_blocks(x.count(), [&](std::int64_t begin, std::int64_t end) {
      double part = 0;
      for (std::int64_t i = begin; i < end; ++i) {
        const auto v = static_cast<double>(data<T>(x)[i]);
        part += std::max(v, 0.0) - v * static_cast<double>(data<T>(target)[i]) + std::log1p(std::exp(-std::fabs(v)));
      }
      return part;
    });
  });
  return sum;
}

void sigmoid_loss_backward(const Tensor& x, const Tensor& target, double factor, const Tensor& dx) {
  by_type(x.dtype(), [&]<class T>(T) {
    parallel_for(x.count(), kBlock, [&](std::int64_t begin, std::int64_t end) {
      run_sigmoid(data<T>(x) + begin, data<T>(target) + begin, static_cast<T>(factor), data<T>(dx) + begin,
                  end - begin);
    });
  });
}

double squared_distance(const Tensor& x, const Tensor& target) {
  double sum = 0;
  by_type(x.dtype(), [&]<class T>(T) {
    sum = sum_blocks(x.count(), [&](std::int64_t begin, std::int64_t end) {
      return run_distance(data<T>(x) + begin, data<T>(target) + begin, end - begin);
    });
  });
  return sum;
}

void difference(const Tensor& x, const Tensor& target, double factor, const Tensor& dx) {
  by_type(x.dtype(), [&]<class T>(T) {
    parallel_for(x.count(), kBlock, [&](std::int64_t begin, std::int64_t end) {
      run_difference(data<T>(x) + begin, data<T>(target) + begin, static_cast<T>(factor), data<T>(dx) + begin,
                     end - begin);
    });
  });
}

}  // namespace pleiad::kernel

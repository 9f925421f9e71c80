#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "job/singa_layers.h"
#include "kernel/types.h"
#include "pleiad/error.h"

namespace pleiad::job {
namespace {

/// Splits the values of an instance, in SINGA's order (channels before height and width), into equal groups and applies
/// a softmax to each.
class InstanceSoftmax final : public nn::Layer {
 public:
  InstanceSoftmax(std::int64_t groups, bool each_step) : groups_(groups), each_step_(each_step) {}
  [[nodiscard]] std::string kind() const override { return "instance_softmax"; }
  [[nodiscard]] std::string summary() const override { return fmt::format("{} to an instance", groups_); }
  [[nodiscard]] nn::Shapes outputs(const nn::Shapes& in) const override {
    if (in.size() != 1 || in[0].rank() < 2) {
      throw InvalidArgument(
          fmt::format("expected a batch axis and at least one more axis; received {}", in.empty() ? "" : in[0].text()));
    }
    if (const std::int64_t count = size_of(in[0]); count % groups_ != 0) {
      throw InvalidArgument(
          fmt::format("num_softmax_per_instance: {} values cannot be divided into {} equal parts", count, groups_));
    }
    return in;
  }

  void forward(nn::Pass& pass) override {
    each_group(pass.x[0], [&]<class T>(T, auto&& at, std::int64_t count) {
      const T* const x = pass.x[0].values<T>().data();
      T* const y = pass.y[0].values<T>().data();
      T most = x[at(0)], sum = 0;
      for (std::int64_t k = 1; k < count; ++k) most = std::max(most, x[at(k)]);
      for (std::int64_t k = 0; k < count; ++k) sum += y[at(k)] = std::exp(x[at(k)] - most);
      for (std::int64_t k = 0; k < count; ++k) y[at(k)] /= sum;
    });
  }
  void backward(nn::Pass& pass) override {
    if (pass.dx[0].empty()) return;
    each_group(pass.x[0], [&]<class T>(T, auto&& at, std::int64_t count) {
      const T* const y = pass.y[0].values<T>().data();
      const T* const dy = pass.dy[0].values<T>().data();
      T* const dx = pass.dx[0].values<T>().data();
      T sum = 0;
      for (std::int64_t k = 0; k < count; ++k) sum += dy[at(k)] * y[at(k)];
      for (std::int64_t k = 0; k < count; ++k) dx[at(k)] = y[at(k)] * (dy[at(k)] - sum);
    });
  }

 private:
  [[nodiscard]] bool steps(const Shape& shape) const { return each_step_ && shape.rank() > 2; }
  /// Returns the number of values of an instance, which is a sample or one of its steps.
  [[nodiscard]] std::int64_t size_of(const Shape& shape) const {
    return shape.count() / (steps(shape) ? shape[0] * shape[1] : shape[0]);
  }

  /// Calls use(a value of the type T, function from k to the index of the group's k-th value, number of values) for
  /// each group.
  template <class Use>
  void each_group(const Tensor& x, Use use) const {
    const Shape& shape = x.shape();
    const std::int64_t size = size_of(shape), length = size / groups_;
    const bool image = shape.rank() == 4 && !steps(shape);
    const std::int64_t channels = image ? shape[3] : 1, places = size / channels;
    kernel::by_type(x.dtype(), [&]<class T>(T zero) {
      for (std::int64_t first = 0; first < x.count(); first += size) {
        for (std::int64_t group = 0; group < groups_; ++group) {
          const auto at = [&](std::int64_t k) {
            const std::int64_t there = group * length + k;  // index in SINGA's order: channel, then position
            return first + (image ? there % places * channels + there / places : there);
          };
          use(zero, at, length);
        }
      }
    });
  }

  const std::int64_t groups_;
  const bool each_step_;
};

}  // namespace

nn::LayerPtr instance_softmax(std::int64_t groups, bool each_step) {
  return std::make_unique<InstanceSoftmax>(groups, each_step);
}

}  // namespace pleiad::job

#include "train/clip.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/threads.h"
#include "kernel/elementwise.h"
#include "kernel/types.h"
#include "pleiad/error.h"

namespace pleiad {
namespace {

/// Returns the sum of squares in double precision. The order of the additions does not depend on the number of threads.
double sum_of_squares(const Tensor& of) {
  constexpr std::int64_t kBlock = 8192;
  std::vector<double> sums(static_cast<std::size_t>((of.count() + kBlock - 1) / kBlock));
  kernel::by_type(of.dtype(), [&]<class T>(T) {
    const T* const values = kernel::data<T>(of);
    parallel_for(static_cast<std::int64_t>(sums.size()), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block) {
        double sum = 0;
        const std::int64_t last = std::min((block + 1) * kBlock, of.count());
        for (std::int64_t i = block * kBlock; i < last; ++i) {
          sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
        }
        sums[static_cast<std::size_t>(block)] = sum;
      }
    });
  });
  double all = 0;
  for (const double sum : sums) all += sum;
  return all;
}

}  // namespace

GradientClip::GradientClip(const nn::Net& net, const Layout& layout, Communicator& comm, double limit)
    : net_(net), layout_(layout), comm_(comm), limit_(limit) {
  if (!on()) return;
  for (const nn::Parameter& p : net.parameters()) {
    splits_ |= layout.part_of(p.name) != nullptr;
    if (p.apart) {
      throw InvalidArgument(fmt::format(
          "clip_norm needs all gradients of a step at once, but the layers that share \"{}\" update it separately",
          p.name));
    }
  }
}

double GradientClip::apply(std::span<const std::size_t> parameters) {
  double whole = 0;
  double parts = 0;
  for (const std::size_t i : parameters) {
    const nn::Parameter& p = net_.parameters()[i];
    const ParameterPart* const part = layout_.part_of(p.name);
    if (part == nullptr) {
      whole += sum_of_squares(p.gradient);
    } else if (part->writes) {  // another rank counts what several ranks hold
      parts += sum_of_squares(p.gradient);
    }
  }
  if (splits_) comm_.sum({&parts, 1});
  const double norm = std::sqrt(whole + parts);
  if (!std::isfinite(norm) || norm <= limit_) return norm;
  for (const std::size_t i : parameters) kernel::scale(net_.parameters()[i].gradient, limit_ / norm);
  return norm;
}

}  // namespace pleiad

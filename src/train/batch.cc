// The size of a trainer's batches: complete ones, and the incomplete last batch of an epoch.
#include <fmt/format.h>

#include "pleiad/error.h"
#include "train/trainer_impl.h"

namespace pleiad {

void Trainer::Impl::check_batch(std::int64_t batch) const {
  if (batch == options.batch) return;
  if (batch < 1 || batch > options.batch) {
    throw InvalidArgument(fmt::format("expected a batch of 1 to {} samples; received {}", options.batch, batch));
  }
  if (!uneven() && batch % shares != 0) {
    throw InvalidArgument(
        fmt::format("the incomplete last batch of {} samples is not divisible by the {} ranks, which split layers; use "
                    "drop_last, or plan \"data\", which takes any batch size",
                    batch, shares));
  }
  if (!net.control().carried().empty()) {
    throw InvalidArgument(
        fmt::format("the incomplete last batch has {} samples, but the net carries state from one batch of {} to the "
                    "next; use drop_last",
                    batch, options.batch));
  }
}

void Trainer::Impl::prepare_batch(std::int64_t batch) {
  check_batch(batch);
  const bool changed = batch != current_batch;
  current_batch = batch;
  if (changed && !options.plan.deterministic) net.control().set_gradient_scale(gradient_scale());
  net.prepare(held());
}

void Trainer::prepare_batch(std::int64_t batch) { impl_->prepare_batch(batch); }
void Trainer::check_batch(std::int64_t batch) const { impl_->check_batch(batch); }
Interval Trainer::local_rows() const { return impl_->rows(); }

void Trainer::begin_pass(const Samples& samples) {
  std::int64_t& place = impl_->place.values<std::int64_t>()[0];
  place = (place + samples.count() - 1) / samples.count() * samples.count();
}

}  // namespace pleiad

#include "data/sampler.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/random.h"
#include "data/streams.h"

namespace pleiad::data {

namespace {

__extension__ using Wide = unsigned __int128;

/// Shuffles by Fisher and Yates with an independent random number for each position, so that the order is the same
/// wherever it is computed.
std::vector<std::int64_t> shuffled(std::int64_t size, std::uint64_t seed, std::int64_t epoch) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const Philox philox = Philox::seeded(seed);
  for (auto last = static_cast<std::uint64_t>(size); last-- > 1;) {
    const auto block = philox({static_cast<std::uint32_t>(last), static_cast<std::uint32_t>(last >> 32),
                               static_cast<std::uint32_t>(epoch), kShuffleStream});
    const std::uint64_t bits = std::uint64_t{block[1]} << 32 | block[0];
    std::swap(order[last], order[static_cast<std::size_t>((Wide{bits} * (last + 1)) >> 64)]);
  }
  return order;
}

}  // namespace

Sampler::Sampler(std::int64_t size, const LoaderOptions& options)
    : size_(size),
      batch_(options.batch),
      epochs_(options.epochs > 0 ? options.epochs : std::numeric_limits<std::int64_t>::max()),
      last_(options.last),
      shuffle_(options.shuffle),
      seed_(options.seed),
      rank_(options.rank),
      ranks_(options.ranks) {}

void Sampler::normalise(LoaderPosition& position) const {
  position.epoch += position.offset / size_;
  position.offset %= size_;
  if (last_ == LastBatch::drop && size_ - position.offset < batch_) {
    ++position.epoch;
    position.offset = 0;
  }
}

BatchPlan Sampler::plan(LoaderPosition position) const {
  position.seed = seed_;
  position.records = size_;
  normalise(position);
  BatchPlan plan{.begin = position, .count = 0, .end = position};
  if (position.epoch >= epochs_) return plan;
  const std::int64_t left = size_ - position.offset;
  const std::int64_t epochs_after = epochs_ - 1 - position.epoch;
  if (last_ != LastBatch::wrap || batch_ <= left || epochs_after == 0) {
    plan.count = std::min(batch_, left);
  } else {
    const bool all = (batch_ - left - 1) / size_ < epochs_after;
    plan.count = all ? batch_ : left + epochs_after * size_;
  }
  plan.end.offset += plan.count;
  normalise(plan.end);
  return plan;
}

void Sampler::samples(const BatchPlan& plan, std::vector<Sample>& out) const {
  out.clear();
  const std::int64_t first = plan.count * rank_ / ranks_;
  const std::int64_t last = plan.count * (rank_ + 1) / ranks_;
  Order order;
  std::int64_t order_epoch = -1;
  for (std::int64_t i = first; i < last; ++i) {
    const std::int64_t at = plan.begin.offset + i;
    const std::int64_t epoch = plan.begin.epoch + at / size_;
    if (shuffle_ && epoch != order_epoch) {
      order = order_of(epoch);
      order_epoch = epoch;
    }
    const std::int64_t place = at % size_;
    out.push_back({.record = shuffle_ ? (*order)[static_cast<std::size_t>(place)] : place, .epoch = epoch});
  }
}

std::int64_t Sampler::max_share() const { return (batch_ + ranks_ - 1) / ranks_; }

Sampler::Order Sampler::order_of(std::int64_t epoch) const {
  const std::scoped_lock lock(mutex_);
  Cached& cached = cache_[epoch % 2];
  if (cached.epoch != epoch) {
    cached.order = std::make_shared<const std::vector<std::int64_t>>(shuffled(size_, seed_, epoch));
    cached.epoch = epoch;
  }
  return cached.order;
}

}  // namespace pleiad::data

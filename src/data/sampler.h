// Which records make up which batch.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "pleiad/data.h"

namespace pleiad::data {

struct Sample {
  std::int64_t record = 0;
  std::int64_t epoch = 0;
};

/// A batch of all ranks: `count` records from a position on. Nothing follows where count is 0.
struct BatchPlan {
  LoaderPosition begin;
  std::int64_t count = 0;
  LoaderPosition end;
};

/// The order of the records, a function of position, seed and options alone. Any thread may call any method.
class Sampler {
 public:
  Sampler(std::int64_t size, const LoaderOptions& options);

  /// The batch that begins at `position`, or with the next epoch where that is at its end.
  [[nodiscard]] BatchPlan plan(LoaderPosition position) const;
  /// This rank's share of a batch.
  void samples(const BatchPlan& plan, std::vector<Sample>& out) const;
  /// The most records that a share has.
  [[nodiscard]] std::int64_t max_share() const;

 private:
  using Order = std::shared_ptr<const std::vector<std::int64_t>>;
  [[nodiscard]] Order order_of(std::int64_t epoch) const;
  void normalise(LoaderPosition& position) const;

  std::int64_t size_;
  std::int64_t batch_;
  std::int64_t epochs_;
  LastBatch last_;
  bool shuffle_;
  std::uint64_t seed_;
  std::int64_t rank_;
  std::int64_t ranks_;

  struct Cached {
    std::int64_t epoch = -1;
    Order order;
  };
  mutable std::mutex mutex_;
  mutable Cached cache_[2];  ///< by mutex_; batches in work lie in two epochs at most, as a rule
};

}  // namespace pleiad::data

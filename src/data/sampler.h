// Determines which records make up each batch.
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

/// A batch over all ranks: `count` records from a position on. A count of 0 means that no batch follows.
struct BatchPlan {
  LoaderPosition begin;
  std::int64_t count = 0;
  LoaderPosition end;
};

/// The order of the records, which depends only on position, seed and options. Thread-safe.
class Sampler {
 public:
  Sampler(std::int64_t size, const LoaderOptions& options);

  /// Returns the batch that begins at `position`, or the first batch of the next epoch if the position is at the end of
  /// one.
  [[nodiscard]] BatchPlan plan(LoaderPosition position) const;
  /// Lists the records of this rank's part of a batch.
  void samples(const BatchPlan& plan, std::vector<Sample>& out) const;
  /// Returns the largest number of records in a rank's part of a batch.
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
  mutable Cached cache_[2];  ///< guarded by mutex_; the batches in progress usually belong to at most two epochs
};

}  // namespace pleiad::data

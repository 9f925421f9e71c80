// Groups of ranks. The ranks of a group make each step together and do not wait for other groups.
#pragma once

#include <memory>

#include "plan/communicator.h"
#include "train/exchange.h"

namespace pleiad {

/// The group of this rank: consecutive ranks, the same number in each group. Its ranks communicate by point-to-point
/// messages, which other groups do not take part in.
class RankGroup {
 public:
  RankGroup(Communicator& comm, int groups);
  /// Returns true for the first rank of the group.
  [[nodiscard]] bool first() const { return comm_.rank() == first_; }
  /// Sums `numbers` over the group in rank order; the result is on its first rank. sum() puts the result on all its
  /// ranks.
  void sum_at_first(const Tensor& numbers);
  void sum(const Tensor& numbers);
  /// Copies the values of the first rank to all ranks of the group.
  void take_first(const Tensor& numbers);

 private:
  Communicator& comm_;
  int first_;
  int size_;
  Tensor other_;  // receives the values of another rank
};

/// Each group updates its own replica of the parameters. Every options.sync_every steps it adds its changes to the
/// tables without waiting for other groups, and continues with the values that the tables then hold.
[[nodiscard]] std::unique_ptr<Exchange> replicas(nn::Net& net, const TrainOptions& options, Communicator& comm);

}  // namespace pleiad

// Groups of ranks: those of one make a step together, and do not wait for other groups.
#pragma once

#include <memory>

#include "plan/crew.h"
#include "train/exchange.h"

namespace pleiad {

/// The group of this rank: ranks one after another, as many in each. What its ranks do together goes by messages, which
/// other groups need not know of.
class RankGroup {
 public:
  RankGroup(Crew& crew, int groups);
  /// Whether this rank speaks for the group.
  [[nodiscard]] bool first() const { return crew_.rank() == first_; }
  /// The group's sum, in rank order, in the tensor of its first rank; and in those of all.
  void sum_at_first(const Tensor& numbers);
  void sum(const Tensor& numbers);
  /// All have the numbers of the first.
  void take_first(const Tensor& numbers);

 private:
  Crew& crew_;
  int first_;
  int size_;
  Tensor other_;  // what came from another rank
};

/// Each group updates parameters of its own; every options.sync_every steps its changes are added to those of the
/// others in tables, without waiting for anybody, and it goes on with what is there.
[[nodiscard]] std::unique_ptr<Exchange> replicas(nn::Net& net, const TrainOptions& options, Crew& crew);

}  // namespace pleiad

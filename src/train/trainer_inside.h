// What a trainer consists of.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/trace.h"
#include "plan/crew.h"
#include "plan/layout.h"
#include "pleiad/train.h"
#include "train/checkpoint.h"
#include "train/exchange.h"

namespace pleiad {

struct Trainer::Inside {
  nn::Net& net;
  TrainOptions options;
  std::shared_ptr<Crew> crew;  // shared with the layers that the plan cuts
  int shares = 1;              // how many ways the batch is shared out
  Layout layout;
  std::unique_ptr<Exchange> exchange;
  Tensor step{DType::int64, {1}};  // saved with the rest
  Tensor seed{DType::int64, {1}};
  Tensor place{DType::int64, {1}};  // of the next batch's first sample in the run's sequence of samples
  std::function<void(std::size_t)> ready;
  mutable std::vector<std::unique_ptr<HeldPart>> carried_parts;  // this rank's rows of what layers carry
  std::string trained_on;                                        // the identity of the run's samples
  std::string loaded_on;                                         // that of a checkpoint's, until the next run
  Trace trace;
  std::int64_t trace_begin = 0;  // the first step of it
  bool traced = false;
  bool own_rule = false;         // the update rule is a user's
  bool told_not_finite = false;  // a loss that is not finite was reported

  Inside(nn::Net& net, TrainOptions options, Session* session);
  ~Inside();

  [[nodiscard]] int rank() const { return crew->rank(); }
  [[nodiscard]] int ranks() const { return crew->workers(); }
  /// A rank that only holds tables: it makes all the calls and computes nothing.
  [[nodiscard]] bool serves() const { return rank() >= ranks(); }
  [[nodiscard]] std::int64_t now() const { return step.values<std::int64_t>()[0]; }
  /// This rank's share of a batch: that of its rank, or of its group where ranks of a group cut images.
  [[nodiscard]] int share() const { return serves() ? 0 : rank() / (ranks() / shares); }
  /// This rank's samples of a batch: the loader (data/sampler.cc) divides batches in the same way.
  [[nodiscard]] Interval part_of_batch(std::int64_t batch) const {
    return {batch * share() / shares, batch * (share() + 1) / shares};
  }
  [[nodiscard]] std::int64_t local() const { return part_of_batch(options.batch).size(); }
  [[nodiscard]] std::int64_t first() const { return part_of_batch(options.batch).begin; }
  /// Whether ranks may have different numbers of samples: where no layer is split.
  [[nodiscard]] bool uneven() const { return options.plan.kind == "data"; }
  /// The share of this rank's mean gradient in the batch's, or in its group's.
  [[nodiscard]] double gradient_scale() const;
  [[nodiscard]] StepRates rates() const;
  /// Whether all ranks make each step together.
  [[nodiscard]] bool synchronous() const { return options.clock == "sync" && options.groups <= 1; }

  /// A step on what stands in the net's inputs; returns this rank's loss.
  double train();
  /// Reports a loss that is not finite: a StateError, or a line where options.check_finite is off.
  void check_loss(double loss);
  /// The same for averages of an evaluation. `mine` says where a loss of this rank was not finite. Collective.
  void check_report(const Report& report, const std::string& mine);
  [[nodiscard]] std::string where_not_finite(double loss) const;
  /// After a step, where a user's rule updates: what it threw. On all ranks where these make each step together.
  void check_rule();
  /// An InvalidArgument where ranks that only serve cannot take part.
  void check_servers() const;
  /// True where any rank wants it. Collective.
  bool any(bool mine);
  /// The trace while this step is to be traced, else null.
  [[nodiscard]] Trace* tracing();
  /// Writes what was traced. Collective.
  void write_trace();

  /// Everything that is saved, with `memory` in the order of the parameters.
  [[nodiscard]] std::vector<CheckpointTensor> tensors(const std::vector<RuleMemory>& memory) const;
  /// Puts copies of tensors(memory), in that order, in place.
  void restore(const std::vector<RuleMemory>& memory, const std::vector<Tensor>& copies);
  [[nodiscard]] Metadata metadata() const;
};

}  // namespace pleiad

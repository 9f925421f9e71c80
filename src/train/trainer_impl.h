// The private data of a trainer.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plan/communicator.h"
#include "plan/layout.h"
#include "pleiad/train.h"
#include "train/checkpoint.h"
#include "train/exchange.h"
#include "train/step_trace.h"

namespace pleiad {

struct Trainer::Impl {
  nn::Net& net;
  TrainOptions options;
  std::shared_ptr<Communicator> comm;  // shared with the layers that the plan splits
  int shares = 1;                      // number of parts that the batch is split into
  std::int64_t current_batch;          // size of the current batch, which may be incomplete
  Layout layout;
  std::unique_ptr<Exchange> exchange;
  Tensor step{DType::int64, {1}};  // number of the next step; saved in checkpoints
  Tensor seed{DType::int64, {1}};
  Tensor place{DType::int64, {1}};  // index of the next batch's first sample in the run's sequence of samples
  Tensor schedule_state;            // values of the caller's schedule; saved in checkpoints
  std::function<void(std::size_t)> ready;
  mutable std::vector<std::unique_ptr<ParameterPart>> carried_parts;  // this rank's rows of the layers' carried state
  std::string trained_on;                                             // identity of the samples of the current run
  std::string loaded_on;  // identity of a loaded checkpoint's samples, until the next run
  StepTrace trace;
  bool own_rule = false;             // the update rule was registered by the user
  bool reported_not_finite = false;  // a loss that is not finite has been reported

  Impl(nn::Net& net, TrainOptions options, Session* session);
  ~Impl();

  [[nodiscard]] int rank() const { return comm->rank(); }
  [[nodiscard]] int ranks() const { return comm->workers(); }
  /// Returns true for a rank that only holds tables. It makes all calls and computes nothing.
  [[nodiscard]] bool serves() const { return rank() >= ranks(); }
  [[nodiscard]] std::int64_t now() const { return step.values<std::int64_t>()[0]; }
  /// Returns the index of this rank's part of a batch: its rank, or its group if the ranks of a group split images.
  [[nodiscard]] int share() const { return serves() ? 0 : rank() / (ranks() / shares); }
  /// Returns this rank's samples of a batch. The loader (data/sampler.cc) divides batches in the same way.
  [[nodiscard]] Interval part_of_batch(std::int64_t batch) const {
    return {batch * share() / shares, batch * (share() + 1) / shares};
  }
  [[nodiscard]] std::int64_t local() const { return part_of_batch(options.batch).size(); }
  [[nodiscard]] std::int64_t first() const { return part_of_batch(options.batch).begin; }
  [[nodiscard]] Interval rows() const { return part_of_batch(current_batch); }
  /// Returns true if this rank has no sample of the current batch.
  [[nodiscard]] bool idle() const { return rows().size() == 0 && !serves(); }
  /// Returns the number of samples that the net is prepared for in a step.
  [[nodiscard]] std::int64_t held() const { return std::max<std::int64_t>(rows().size(), 1); }
  /// Returns true if ranks may have different numbers of samples, that is, if no layer is split.
  [[nodiscard]] bool uneven() const { return options.plan.kind == PlanKind::data; }
  /// Returns the weight of this rank's mean gradient in that of the batch, or of its group.
  [[nodiscard]] double gradient_scale() const;
  [[nodiscard]] StepRates rates() const;
  /// Returns true if all ranks make each step together.
  [[nodiscard]] bool synchronous() const { return options.clock == TrainClock::sync && options.groups <= 1; }

  /// Runs a step on the samples in the net's inputs. Returns this rank's loss.
  double train();
  void check_batch(std::int64_t batch) const;
  void prepare_batch(std::int64_t batch);
  /// Throws StateError if the loss is not finite. With options.check_finite off, prints the first occurrence instead.
  void check_loss(double loss);
  [[nodiscard]] std::string where_not_finite(double loss) const;
  /// Throws the error of a user's update rule, after a step. Throws on all ranks if they make each step together.
  void check_rule();

  /// Returns everything that is saved. `memory` is in the order of the parameters.
  [[nodiscard]] std::vector<CheckpointTensor> tensors(const std::vector<OptimizerState>& memory) const;
  /// Copies `copies`, which are in the order of tensors(memory), to the trainer's state.
  void restore(const std::vector<OptimizerState>& memory, const std::vector<Tensor>& copies);
  [[nodiscard]] Metadata metadata() const;
};

}  // namespace pleiad

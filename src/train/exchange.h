// Processes the gradients between backward and the next forward: exchanges them between ranks and updates the
// parameters.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/trace.h"
#include "plan/communicator.h"
#include "plan/layout.h"
#include "pleiad/train.h"
#include "train/rule.h"

namespace pleiad {

/// Learning rate and momentum of a step.
struct StepRates {
  double learning_rate = 0;
  double momentum = 0;
};

/// The state of an update rule for a parameter: arrays of its shape and a few single values.
struct OptimizerState {
  std::vector<Tensor> arrays;
  Tensor numbers;
};

/// A step consists of begin, ready(i) as soon as the gradient of parameter i is complete, and finish. After finish the
/// parameters hold the values for the next step.
class Exchange {
 public:
  virtual ~Exchange() = default;
  /// `trace` records the exchange of each parameter; may be null.
  virtual void begin(const StepRates& rates, Trace* trace) = 0;
  virtual void ready(std::size_t parameter) = 0;
  virtual void finish() {}
  /// Returns the error of a user's update rule on this rank in this step, or an empty text. Call it after finish. The
  /// other updates of the step have been applied even if it failed.
  [[nodiscard]] virtual std::string take_problem() = 0;
  /// Returns the rules' state in the order of the net's parameters: the state itself, or copies if tables hold it. With
  /// tables the call is collective and also copies the tables' values to the net's parameters.
  [[nodiscard]] virtual std::vector<OptimizerState> optimizer_state() = 0;
  /// Collective. Call it after the parameters and the tensors that optimizer_state() returned have been changed.
  virtual void reload(const std::vector<OptimizerState>& memory) { (void)memory; }
};

/// Checks options.exchange and options.clock. Returns true if gradients are exchanged. `session` may be null if they
/// are not.
[[nodiscard]] bool exchanges(const TrainOptions& options, const Session* session);

/// `comm` has one rank if nothing is exchanged. Each rank updates the parameters that `layout` splits by itself.
[[nodiscard]] std::unique_ptr<Exchange> make_exchange(nn::Net& net, const TrainOptions& options, Layout& layout,
                                                      Communicator& comm);

}  // namespace pleiad

// What happens to a gradient between backward and the next forward.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/trace.h"
#include "plan/crew.h"
#include "plan/layout.h"
#include "pleiad/train.h"
#include "train/rule.h"

namespace pleiad {

/// The rates of a step.
struct StepRates {
  double learning_rate = 0;
  double momentum = 0;
};

/// What a rule keeps beside a parameter: arrays like it, and a few numbers.
struct RuleMemory {
  std::vector<Tensor> arrays;
  Tensor numbers;
};

/// One step is begin, ready(i) for each parameter as its gradient becomes whole, and finish; after it the parameters
/// are the next step's.
class Exchange {
 public:
  virtual ~Exchange() = default;
  /// `trace`: who writes the exchange of each parameter down, or null.
  virtual void begin(const StepRates& rates, Trace* trace) = 0;
  virtual void ready(std::size_t parameter) = 0;
  virtual void finish() {}
  /// After finish: what a user's rule threw on this rank in this step, whose other updates were made all the same.
  [[nodiscard]] virtual std::string take_problem() = 0;
  /// Beside the net's parameters. The rules' own memory, or copies where tables hold it: then the parameters get the
  /// tables' values too, and this is collective.
  [[nodiscard]] virtual std::vector<RuleMemory> memory() = 0;
  /// After the parameters, and what memory() returned, were changed from outside. Collective.
  virtual void reload(const std::vector<RuleMemory>& memory) { (void)memory; }
};

/// Checks options.exchange and options.clock. `session` may be null where nothing is to be exchanged.
[[nodiscard]] bool exchanges(const TrainOptions& options, const Session* session);

/// `crew` is of one rank where nothing is exchanged. Parameters that `layout` cuts are this rank's own affair.
[[nodiscard]] std::unique_ptr<Exchange> make_exchange(nn::Net& net, const TrainOptions& options, Layout& layout,
                                                      Crew& crew);

}  // namespace pleiad

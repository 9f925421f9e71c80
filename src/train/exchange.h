// What happens to a gradient between backward and the next forward.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pleiad/session.h"
#include "pleiad/train.h"
#include "train/rule.h"

namespace pleiad {

/// The rates of a step.
struct StepRates {
  double learning_rate = 0;
  double momentum = 0;
};

/// One step is begin, ready(i) for each parameter as its gradient becomes whole, and finish; after it the parameters
/// are the next step's.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual void begin(const StepRates& rates) = 0;
  virtual void ready(std::size_t parameter) = 0;
  virtual void finish() = 0;
  /// Sums numbers over the ranks.
  virtual void sum(std::vector<double>& numbers) = 0;
  /// The rules whose state a checkpoint holds; empty where tables hold it.
  [[nodiscard]] virtual std::vector<std::unique_ptr<ParameterRule>>* rules() { return nullptr; }
  /// After the parameters were changed from outside.
  virtual void reload() {}
};

/// `session` may be null where options.exchange is "none" or "auto".
[[nodiscard]] std::unique_ptr<Exchange> make_exchange(nn::Net& net, const TrainOptions& options, Session* session);

}  // namespace pleiad

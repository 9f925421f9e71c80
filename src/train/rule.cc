#include "train/rule.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "core/threads.h"
#include "kernel/types.h"
#include "pleiad/error.h"
#include "pleiad/train.h"
#include "updater/user_rule.h"

namespace pleiad {
namespace {
constexpr std::int64_t kGrain = 8192;
constexpr std::size_t kMaxUnit = 4;

UpdaterOptions for_parameter(const nn::Parameter& parameter, const UpdaterOptions& options) {
  UpdaterOptions own = resolve_dialect(options);
  own.weight_decay *= parameter.decay_scale;
  return own;
}
}  // namespace

void check_descends(const UpdaterOptions& options) {
  if (make_updater(options, DType::float32)->descends()) return;
  throw InvalidArgument(
      fmt::format("updater \"{}\" adds gradients to the parameters, so the loss would grow; use a rule for training, "
                  "such as \"sgd\", \"momentum\" or \"adam\"",
                  options.rule));
}

ParameterRule::ParameterRule(const nn::Parameter& parameter, const UpdaterOptions& options)
    : value_(parameter.value),
      rate_scale_(parameter.rate_scale),
      rule_(make_updater(for_parameter(parameter, options), parameter.value.dtype())),
      options_(for_parameter(parameter, options)) {
  check_descends(options);
  const StateLayout layout = rule_->state();
  guard_ = find_user_rule(options.rule) != nullptr;
  if (guard_ && layout.per_unit > 0) {  // blocks of a parameter have any size, so a unit cannot be one block
    throw InvalidArgument(
        fmt::format("updater \"{}\" was registered by the user and keeps values for each unit: it works in tables "
                    "only; set exchange to "
                    "\"tables\"",
                    options.rule));
  }
  if (layout.per_worker > 0 && layout.per_worker_starts_as_value) {
    throw InvalidArgument(
        fmt::format("updater \"{}\" compensates for other workers' delay: it works in tables only; set "
                    "exchange to \"tables\"",
                    options.rule));
  }
  for (int i = 0; i < layout.per_element + layout.per_worker; ++i)
    history_.emplace_back(value_.dtype(), value_.shape());
  unit_ = Tensor(DType::float64, {layout.per_unit});
  next_unit_ = Tensor(DType::float64, {layout.per_unit});
}

void ParameterRule::begin_step(double learning_rate, double momentum) {
  rates_ = merge(options_, {.learning_rate = learning_rate * rate_scale_, .momentum = momentum});
  const auto linear = rule_->linear(rates_);
  linear_ = linear ? std::optional(Linear{.keep = linear->keep, .factor = linear->factor}) : std::nullopt;
  next_unit_.copy_from(unit_);
}

// Each block works on a copy of the unit state, so that a parameter that is updated in blocks still counts as one unit.
void ParameterRule::apply(std::int64_t begin, std::int64_t count, const void* gradient) {
  std::array<double, kMaxUnit> unit{};
  for (std::int64_t i = 0; i < unit_.count(); ++i)
    unit[static_cast<std::size_t>(i)] = unit_.values<double>()[static_cast<std::size_t>(i)];
  kernel::by_type(value_.dtype(), [&]<class T>(T) {
    Update<T> update{.value = kernel::data<T>(value_) + begin,
                     .delta = static_cast<const T*>(gradient),
                     .count = static_cast<std::size_t>(count),
                     .unit = unit.data(),
                     .rates = rates_};
    for (std::size_t k = 0; k < history_.size(); ++k) update.state[k] = kernel::data<T>(history_[k]) + begin;
    guard_ ? guarded(update) : rule_->apply(update);
  });
  if (begin == 0) {
    for (std::int64_t i = 0; i < unit_.count(); ++i)
      next_unit_.values<double>()[static_cast<std::size_t>(i)] = unit[static_cast<std::size_t>(i)];
  }
}

void ParameterRule::apply_all(const Tensor& gradient) {
  const std::size_t size = size_of(gradient.dtype());
  parallel_for(gradient.count(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    apply(begin, end - begin, static_cast<const std::byte*>(gradient.raw()) + static_cast<std::size_t>(begin) * size);
  });
}

template <class T>
void ParameterRule::guarded(const Update<T>& update) {
  try {
    rule_->apply(update);
  } catch (const std::exception& error) {
    const std::scoped_lock lock(mutex_);
    if (problem_.empty()) problem_ = error.what();
  }
}

void ParameterRule::end_step() { unit_.copy_from(next_unit_); }

std::string ParameterRule::take_problem() {
  if (!guard_) return {};
  const std::scoped_lock lock(mutex_);
  return std::exchange(problem_, {});
}

ParameterUpdate::ParameterUpdate(const nn::Parameter& parameter, const UpdaterOptions& options)
    : rule_(std::make_unique<ParameterRule>(parameter, options)) {}
ParameterUpdate::~ParameterUpdate() = default;
ParameterUpdate::ParameterUpdate(ParameterUpdate&&) noexcept = default;
void ParameterUpdate::step(const Tensor& gradient, double learning_rate, double momentum) {
  rule_->begin_step(learning_rate, momentum);
  rule_->apply_all(gradient);
  rule_->end_step();
  if (const std::string problem = rule_->take_problem(); !problem.empty()) throw RuleError(problem);
}

}  // namespace pleiad

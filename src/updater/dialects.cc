// The update rules of other systems as presets of Pleiad's rules. A preset fixes the variant and the constants that the
// other system does not let its users choose. Rates, weight decay, clipping, ascend and bias_correction remain the
// user's choice.
#include <algorithm>

#include "core/text.h"
#include "pleiad/error.h"
#include "updater/updater.h"

namespace pleiad {
namespace {

struct Variant {
  bool prescaled = false;
  bool damped = false;
  bool rate_in_velocity = false;
  bool epsilon_inside_root = false;
  bool per_worker = false;
  bool adaptive = false;
  std::optional<double> epsilon = std::nullopt;
};

struct Dialect {
  const char* name;
  const char* rule;
  Variant variant;
};

const Dialect kDialects[] = {
    {"multiverso/adagrad",
     "adagrad",
     {.prescaled = true, .epsilon_inside_root = true, .per_worker = true, .epsilon = 1e-6}},
    {"multiverso/dcasgd", "dcasgd", {.prescaled = true}},
    {"multiverso/dcasgda", "dcasgd", {.prescaled = true, .adaptive = true, .epsilon = 1e-7}},
    {"multiverso/default", "sum", {}},
    {"multiverso/momentum_sgd", "momentum", {.prescaled = true, .damped = true}},
    {"multiverso/sgd", "sgd", {.prescaled = true}},
    {"neon/adadelta", "adadelta", {}},
    {"neon/gradient_descent", "sgd", {}},
    {"neon/momentum", "momentum", {.rate_in_velocity = true}},
    {"singa/adadelta", "adadelta", {}},
    {"singa/adagrad", "adagrad", {.epsilon_inside_root = true}},
    {"singa/adam", "adam", {.epsilon_inside_root = true}},
    {"singa/adamax", "adamax", {}},
    {"singa/nesterov", "nesterov", {}},
    {"singa/rmsprop", "rmsprop", {.epsilon_inside_root = true}},
    {"singa/sgd", "momentum", {.rate_in_velocity = true}},
};

}  // namespace

std::vector<std::string> dialect_names() {
  std::vector<std::string> names;
  for (const Dialect& dialect : kDialects) names.emplace_back(dialect.name);
  return names;
}

UpdaterOptions resolve_dialect(const UpdaterOptions& options) {
  if (options.rule.find('/') == std::string::npos) return options;
  const auto* const dialect = std::ranges::find(kDialects, options.rule, &Dialect::name);
  if (dialect == std::end(kDialects)) throw InvalidArgument(unknown_name("updater", options.rule, dialect_names()));
  const Variant& variant = dialect->variant;
  UpdaterOptions resolved = options;
  resolved.rule = dialect->rule;
  resolved.prescaled = variant.prescaled;
  resolved.damped = variant.damped;
  resolved.rate_in_velocity = variant.rate_in_velocity;
  resolved.epsilon_inside_root = variant.epsilon_inside_root;
  resolved.per_worker = variant.per_worker;
  resolved.adaptive = variant.adaptive;
  resolved.epsilon = variant.epsilon.value_or(options.epsilon);
  return resolved;
}

}  // namespace pleiad

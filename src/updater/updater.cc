#include "updater/updater.h"

#include "pleiad/error.h"
#include "updater/check.h"

namespace pleiad {

Rates merge(const UpdaterOptions& table, const AddOptions& add) {
  if (add.learning_rate) check_learning_rate(table.rule, *add.learning_rate, table.prescaled);
  if (add.momentum) check_momentum(table.rule, *add.momentum);
  if (add.rho) check_not_negative(table.rule, "rho", *add.rho);
  if (add.lambda) check_not_negative(table.rule, "lambda", *add.lambda);
  return {.learning_rate = add.learning_rate.value_or(table.learning_rate),
          .momentum = add.momentum.value_or(table.momentum),
          .rho = add.rho.value_or(table.rho),
          .lambda = add.lambda.value_or(table.lambda)};
}

void Updater::apply(const Update<std::int32_t>&) const {
  throw InternalError("an updater other than sum was applied to int32 values");
}

void Updater::apply(const Update<std::int64_t>&) const {
  throw InternalError("an updater other than sum was applied to int64 values");
}

}  // namespace pleiad

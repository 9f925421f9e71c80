#include "updater/check.h"

#include <fmt/format.h>

#include <cmath>

#include "pleiad/error.h"

namespace pleiad {
namespace {

void require(bool holds, std::string_view rule, std::string_view field, std::string_view wanted, double value) {
  if (holds) return;
  throw InvalidArgument(fmt::format("updater \"{}\": {} must be {}; received {}", rule, field, wanted, value));
}

void check_fraction(std::string_view rule, std::string_view field, double value) {
  require(value >= 0 && value < 1, rule, field, "at least 0 and less than 1", value);
}

}  // namespace

void check_not_negative(std::string_view rule, std::string_view field, double value) {
  require(value >= 0 && std::isfinite(value), rule, field, "finite and not negative", value);
}

void check_learning_rate(std::string_view rule, double value, bool prescaled) {
  check_not_negative(rule, "learning_rate", value);
  require(!prescaled || value != 0, rule, "learning_rate", "above 0 where the delta is prescaled by it", value);
}

void check_momentum(std::string_view rule, double value) { check_fraction(rule, "momentum", value); }

void check_numbers(const UpdaterOptions& o) {
  check_learning_rate(o.rule, o.learning_rate, o.prescaled);
  check_momentum(o.rule, o.momentum);
  check_not_negative(o.rule, "rho", o.rho);
  check_not_negative(o.rule, "lambda", o.lambda);
  check_fraction(o.rule, "beta1", o.beta1);
  check_fraction(o.rule, "beta2", o.beta2);
  check_fraction(o.rule, "decay", o.decay);
  check_not_negative(o.rule, "l1", o.l1);
  check_not_negative(o.rule, "l2", o.l2);
  check_not_negative(o.rule, "ftrl_beta", o.ftrl_beta);
  check_not_negative(o.rule, "epsilon", o.epsilon);
  check_not_negative(o.rule, "weight_decay", o.weight_decay);
  require(std::isfinite(o.scale), o.rule, "scale", "finite", o.scale);
  require(!std::isnan(o.clip_high), o.rule, "clip_high", "a number", o.clip_high);
  require(o.clip_low <= o.clip_high, o.rule, "clip_low", fmt::format("at most clip_high, {}", o.clip_high), o.clip_low);
}

}  // namespace pleiad

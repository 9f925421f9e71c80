// Converts names to phases.
#pragma once

#include <string>
#include <vector>

#include "core/text.h"
#include "pleiad/error.h"
#include "pleiad/nn/layer.h"

namespace pleiad::python {

inline nn::Phase phase_named(const std::string& name) {
  if (name == "train") return nn::Phase::train;
  if (name == "validate") return nn::Phase::validate;
  if (name == "test") return nn::Phase::test;
  static const std::vector<std::string> known = {"test", "train", "validate"};
  throw InvalidArgument(unknown_name("phase", name, known));
}

}  // namespace pleiad::python

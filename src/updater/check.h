// Checks the values of an updater's options.
#pragma once

#include <string_view>

#include "pleiad/options.h"

namespace pleiad {

/// Each function throws an InvalidArgument that names the field and the value received.
void check_numbers(const UpdaterOptions& options);
void check_learning_rate(std::string_view rule, double value, bool prescaled);
void check_momentum(std::string_view rule, double value);
void check_not_negative(std::string_view rule, std::string_view field, double value);

}  // namespace pleiad

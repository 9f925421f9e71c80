// Labels of all stores are int32 values from 0 on.
#pragma once

#include <cstdint>
#include <string>

#include "pleiad/data.h"

namespace pleiad::data {

[[nodiscard]] inline Field label_field() { return {.name = "label", .type = FieldType::int32, .shape = {}}; }

/// Throws a FileError that names file and record unless 0 <= label < classes; with classes 0, only a negative label is
/// an error.
void check_label(std::int64_t label, std::int64_t classes, const std::string& file, std::int64_t record);

}  // namespace pleiad::data

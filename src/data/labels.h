// Labels as every store gives them: int32, from 0 on.
#pragma once

#include <cstdint>
#include <string>

#include "pleiad/data.h"

namespace pleiad::data {

[[nodiscard]] inline Field label_field() { return {.name = "label", .type = FieldType::int32, .shape = {}}; }

/// A FileError that names file and record unless 0 <= label < classes, or 0 <= label where classes is 0.
void check_label(std::int64_t label, std::int64_t classes, const std::string& file, std::int64_t record);

}  // namespace pleiad::data

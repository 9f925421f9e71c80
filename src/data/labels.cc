#include "data/labels.h"

#include <fmt/format.h>

#include <limits>

#include "core/text.h"
#include "pleiad/error.h"

namespace pleiad::data {

void check_label(std::int64_t label, std::int64_t classes, const std::string& file, std::int64_t record) {
  const std::int64_t end = classes > 0 ? classes : std::int64_t{std::numeric_limits<std::int32_t>::max()} + 1;
  if (label >= 0 && label < end) return;
  throw FileError(
      fmt::format("{}: record {}: label {} is out of range; expected 0 to {}", file, grouped(record), label, end - 1));
}

}  // namespace pleiad::data

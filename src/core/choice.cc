#include "pleiad/choice.h"

#include <algorithm>
#include <vector>

#include "core/text.h"
#include "pleiad/error.h"

namespace pleiad {

std::size_t detail::choice_named(std::string_view family, std::string_view text,
                                 std::span<const std::string_view> names) {
  const auto found = std::ranges::find(names, text);
  if (found == names.end()) {
    throw InvalidArgument(unknown_name(family, text, std::vector<std::string>(names.begin(), names.end())));
  }
  return static_cast<std::size_t>(found - names.begin());
}

}  // namespace pleiad

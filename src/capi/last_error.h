// The last failure of each thread, for pleiad_last_error().
#pragma once

#include <string_view>

#include "pleiad/api.h"

namespace pleiad {

/// Remembers a failure of this thread and returns `code`. Exported for libmultiverso, which shares it.
PLEIAD_API int set_last_error(int code, std::string_view text) noexcept;

}  // namespace pleiad

// The last error of each thread, for pleiad_last_error().
#pragma once

#include <cstdint>
#include <string_view>

#include "pleiad/api.h"

namespace pleiad {

/// Stores an error of this thread and returns `code`. Exported for libmultiverso, which uses it too.
PLEIAD_API int set_last_error(int code, std::string_view text) noexcept;
/// The same as pleiad_last_error() for the library's own use: it does not count as the program reading the error.
[[nodiscard]] PLEIAD_API const char* peek_last_error() noexcept;
/// Returns how often the program has read or cleared an error, over all threads.
[[nodiscard]] PLEIAD_API std::uint64_t error_reads() noexcept;

}  // namespace pleiad

// Images in memory, {channels, height, width} in row-major order.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "pleiad/data.h"

namespace pleiad::data {

/// Copies a record of `field` from `from`, or only the window of it if there is one. Returns the end of the bytes
/// written.
std::byte* copy_record(const Field& field, const std::byte* from, const Window* window, std::byte* out);

/// Returns the store itself if there is no window, else a store whose field "data" consists of that window of the
/// images.
[[nodiscard]] std::unique_ptr<Store> windowed(std::unique_ptr<Store> store, const std::optional<Window>& window);

}  // namespace pleiad::data

// Images in memory: {channels, height, width}, row-major.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "pleiad/data.h"

namespace pleiad::data {

/// Copies a record of `field` that lies at `from`, or where there is a window, that rectangle of it. Returns the end of
/// what it wrote.
std::byte* copy_record(const Field& field, const std::byte* from, const Window* window, std::byte* out);

/// The store as it is without a window; else one whose images are that rectangle of its field "data".
[[nodiscard]] std::unique_ptr<Store> windowed(std::unique_ptr<Store> store, const std::optional<Window>& window);

}  // namespace pleiad::data

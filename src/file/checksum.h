// CRC-32C (Castagnoli), as iSCSI, ext4 and TensorBoard's records have it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace pleiad {

/// Of `bytes` after those that gave `before`: crc32c(b, crc32c(a)) == crc32c(ab).
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);

/// The same by a table, whatever the processor can do: the oracle of the tests.
[[nodiscard]] std::uint32_t crc32c_by_table(std::span<const std::byte> bytes, std::uint32_t before = 0);

}  // namespace pleiad

// CRC-32C (Castagnoli), as used by iSCSI, ext4 and TensorBoard's records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace pleiad {

/// Extends the checksum `before` by `bytes`: crc32c(b, crc32c(a)) == crc32c(ab).
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);

/// The same with a lookup table on every processor; the reference implementation for the tests.
[[nodiscard]] std::uint32_t crc32c_by_table(std::span<const std::byte> bytes, std::uint32_t before = 0);

}  // namespace pleiad

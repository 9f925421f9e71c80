// A view of a record in SINGA's or Caffe's format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace pleiad::data {

/// A SINGA RecordProto {shape = 1, label = 2, pixel = 3, data = 4}, possibly wrapped as the image of a Record {type =
/// 1, image = 5} as SINGA 0.1 to 0.3 write it; or a Caffe Datum {channels = 1, height = 2, width = 3, data = 4, label =
/// 5, float_data = 6}. A numeric field 3 identifies a Datum.
struct RecordView {
  static constexpr std::size_t kMaxRank = 8;
  std::int64_t extents[kMaxRank] = {};
  std::size_t rank = 0;
  std::optional<std::int32_t> label;
  std::span<const std::byte> pixel;
  std::span<const std::byte> floats;  ///< little-endian, not aligned
  std::vector<std::byte> gathered;    ///< backing memory of `floats` if the message stores them in several pieces

  [[nodiscard]] std::span<const std::int64_t> shape() const { return {extents, rank}; }
};

/// Fills `record` and returns an empty text, or returns an error message. The spans point into `bytes` or
/// `record.gathered`.
[[nodiscard]] std::string parse(std::span<const std::byte> bytes, RecordView& record);

/// Encodes a SINGA RecordProto.
[[nodiscard]] std::string encode(std::span<const std::int64_t> shape, std::optional<std::int32_t> label,
                                 std::span<const std::byte> pixel, std::span<const std::byte> floats);

}  // namespace pleiad::data

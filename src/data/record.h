// A record of SINGA's or Caffe's where it lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace pleiad::data {

/// SINGA's RecordProto {shape = 1, label = 2, pixel = 3, data = 4}, maybe as the image of a Record {type = 1, image =
/// 5} as SINGA 0.1 to 0.3 write it, or Caffe's Datum {channels = 1, height = 2, width = 3, data = 4, label = 5,
/// float_data = 6}, which is known by a field 3 that is a number.
struct RecordView {
  static constexpr std::size_t kMaxRank = 8;
  std::int64_t extents[kMaxRank] = {};
  std::size_t rank = 0;
  std::optional<std::int32_t> label;
  std::span<const std::byte> pixel;
  std::span<const std::byte> floats;  ///< little-endian, not aligned
  std::vector<std::byte> gathered;    ///< what `floats` lies in where the message has it in pieces

  [[nodiscard]] std::span<const std::int64_t> shape() const { return {extents, rank}; }
};

/// Fills `record`; else the mistake, in words. Where `bytes` is what they lie in, the spans are too.
[[nodiscard]] std::string parse(std::span<const std::byte> bytes, RecordView& record);

/// SINGA's message.
[[nodiscard]] std::string encode(std::span<const std::int64_t> shape, std::optional<std::int32_t> label,
                                 std::span<const std::byte> pixel, std::span<const std::byte> floats);

}  // namespace pleiad::data

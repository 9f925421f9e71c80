// Reads and writes the Protocol Buffers encoding of flat messages, whose fields are numbers and bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace pleiad::data {

enum class ProtobufType : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

/// Iterates over the fields of a message. After next() has returned false, failed() distinguishes a damaged message
/// from its end.
class ProtobufReader {
 public:
  explicit ProtobufReader(std::span<const std::byte> message) : left_(message) {}

  /// Advances to the next field.
  bool next() {
    if (left_.empty()) return false;
    const std::optional<std::uint64_t> tag = take_varint();
    if (!tag) return false;
    field_ = *tag >> 3;
    type_ = static_cast<ProtobufType>(*tag & 7);
    if (field_ == 0) return fail();
    switch (type_) {
      case ProtobufType::varint: {
        const std::optional<std::uint64_t> value = take_varint();
        number_ = value.value_or(0);
        return value.has_value();
      }
      case ProtobufType::fixed64: return take_bytes(8);
      case ProtobufType::fixed32: return take_bytes(4);
      case ProtobufType::bytes: {
        const std::optional<std::uint64_t> length = take_varint();
        return length && take_bytes(*length);
      }
    }
    return fail();
  }
  [[nodiscard]] bool failed() const { return failed_; }

  [[nodiscard]] std::uint64_t field() const { return field_; }
  [[nodiscard]] ProtobufType type() const { return type_; }
  /// The value of a varint field.
  [[nodiscard]] std::uint64_t number() const { return number_; }
  /// The value of any other field.
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

  /// Reads a varint from the rest of the message. Also for packed numbers.
  std::optional<std::uint64_t> take_varint() {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < 10 && i < left_.size(); ++i) {
      const auto byte = static_cast<std::uint64_t>(left_[i]);
      value |= (byte & 0x7F) << (7 * i);
      if ((byte & 0x80) != 0) continue;
      left_ = left_.subspan(i + 1);
      return value;
    }
    fail();
    return std::nullopt;
  }
  [[nodiscard]] bool empty() const { return left_.empty(); }

 private:
  bool fail() {
    failed_ = true;
    return false;
  }
  bool take_bytes(std::uint64_t length) {
    if (length > left_.size()) return fail();
    bytes_ = left_.first(static_cast<std::size_t>(length));
    left_ = left_.subspan(static_cast<std::size_t>(length));
    return true;
  }

  std::span<const std::byte> left_;
  std::uint64_t field_ = 0;
  ProtobufType type_ = ProtobufType::varint;
  std::uint64_t number_ = 0;
  std::span<const std::byte> bytes_;
  bool failed_ = false;
};

/// Builds a message.
class ProtobufWriter {
 public:
  void varint(std::uint64_t field, std::uint64_t value) {
    put(field << 3);
    put(value);
  }
  void bytes(std::uint64_t field, std::string_view value) {
    put(field << 3 | 2);
    put(value.size());
    text_ += value;
  }
  void bytes(std::uint64_t field, std::span<const std::byte> value) {
    bytes(field, std::string_view(reinterpret_cast<const char*>(value.data()), value.size()));
  }
  void number(std::uint64_t field, float value) {
    put(field << 3 | 5);
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void number(std::uint64_t field, double value) {
    put(field << 3 | 1);
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  void put(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80);
    text_ += static_cast<char>(value);
  }

  std::string text_;
};

}  // namespace pleiad::data

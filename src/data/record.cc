#include "data/record.h"

#include <fmt/format.h>

#include <cstring>
#include <limits>

#include "data/protobuf_fields.h"
#include "pleiad/error.h"
#include "pleiad/records.h"

namespace pleiad {

namespace data {

namespace {

/// Collects the fields of a message of either format and decides between the formats at the end.
class RecordParser {
 public:
  explicit RecordParser(RecordView& record) : record_(record) {}

  std::string parse(std::span<const std::byte> bytes) {
    ProtobufReader fields(image_of(bytes));
    while (fields.next()) {
      std::string mistake = take(fields);
      if (!mistake.empty()) return mistake;
    }
    if (fields.failed()) return "is not a record: its message is truncated or damaged";
    return finish();
  }

 private:
  /// Returns the inner record: SINGA 0.1 to 0.3 wrap a record in {type = 1, user_type = 2, image = 5}. A Datum's field
  /// 5 is a number.
  static std::span<const std::byte> image_of(std::span<const std::byte> bytes) {
    std::span<const std::byte> image = bytes;
    ProtobufReader fields(bytes);
    while (fields.next()) {
      const bool text = fields.type() == ProtobufType::bytes;
      if (fields.field() == 5 && text) {
        image = fields.bytes();
      } else if (fields.field() == 3 || fields.field() == 4 || (fields.field() == 1 && text)) {
        return bytes;  // a field that only the record itself has
      }
    }
    return fields.failed() ? bytes : image;
  }

  std::string take(const ProtobufReader& field) {
    const bool number = field.type() == ProtobufType::varint;
    const bool bytes = field.type() == ProtobufType::bytes;
    switch (field.field()) {
      case 1: return shape(field);
      case 2:
        if (!number) return "is not a record: its field 2 is not a number";
        second_ = field.number();
        return {};
      case 3:
        if (number) {
          width_ = field.number();
        } else if (bytes) {
          record_.pixel = field.bytes();
        } else {
          return "is not a record: its field 3 is neither bytes nor a number";
        }
        return {};
      case 4: return fourth(field);
      case 5:
        if (number) datum_label_ = field.number();
        return {};
      case 6: return width_ ? floats(field, sixth_, six_) : std::string();
      case 7:
        if (width_ && number && field.number() != 0)
          return "is a compressed image (Datum's encoded), which is not supported";
        return {};
      default: return {};
    }
  }

  std::string shape(const ProtobufReader& field) {
    if (field.type() == ProtobufType::varint) return extent(field.number());
    if (field.type() != ProtobufType::bytes) return "is not a record: its field 1 (shape) is not a list of numbers";
    ProtobufReader packed(field.bytes());
    while (!packed.empty()) {
      const std::optional<std::uint64_t> number = packed.take_varint();
      if (!number) return "is not a record: its field 1 (shape) is damaged";
      std::string mistake = extent(*number);
      if (!mistake.empty()) return mistake;
    }
    return {};
  }

  std::string extent(std::uint64_t value) {
    if (value < 1 || value > std::numeric_limits<std::int32_t>::max()) {
      return fmt::format("has an extent of {} in its shape; expected 1 or more", static_cast<std::int64_t>(value));
    }
    if (record_.rank == RecordView::kMaxRank) return fmt::format("has more than {} axes", RecordView::kMaxRank);
    record_.extents[record_.rank++] = static_cast<std::int64_t>(value);
    return {};
  }

  /// Field 4 holds packed floats, unpacked floats, or a Datum's bytes.
  std::string fourth(const ProtobufReader& field) {
    if (field.type() == ProtobufType::bytes) datum_data_ = field.bytes();
    return floats(field, fourth_, four_);
  }

  std::string floats(const ProtobufReader& field, std::span<const std::byte>& whole, std::vector<std::byte>& pieces) {
    if (field.type() != ProtobufType::bytes && field.type() != ProtobufType::fixed32) {
      return fmt::format("is not a record: its field {} is not a list of floats", field.field());
    }
    if (whole.empty() && pieces.empty() && field.type() == ProtobufType::bytes) {
      whole = field.bytes();
      return {};
    }
    if (pieces.empty()) pieces.assign(whole.begin(), whole.end());
    pieces.insert(pieces.end(), field.bytes().begin(), field.bytes().end());
    return {};
  }

  std::string finish() {
    const bool datum = width_.has_value();
    std::vector<std::byte>& pieces = datum ? six_ : four_;
    record_.gathered = std::move(pieces);
    record_.floats =
        record_.gathered.empty() ? (datum ? sixth_ : fourth_) : std::span<const std::byte>(record_.gathered);
    std::optional<std::uint64_t> label = datum ? datum_label_ : second_;
    if (datum) {
      std::string mistake = extent(second_.value_or(0));
      if (mistake.empty()) mistake = extent(*width_);
      if (!mistake.empty()) return mistake;
      record_.pixel = datum_data_;
    }
    if (record_.floats.size() % sizeof(float) != 0) return "has float data whose size is not a multiple of 4 bytes";
    if (label) {
      const auto number = static_cast<std::int64_t>(*label);
      if (number < std::numeric_limits<std::int32_t>::min() || number > std::numeric_limits<std::int32_t>::max()) {
        return fmt::format("has the label {}, which does not fit in int32", number);
      }
      record_.label = static_cast<std::int32_t>(number);
    }
    return {};
  }

  RecordView& record_;
  std::optional<std::uint64_t> second_;  // the label, or a Datum's height
  std::optional<std::uint64_t> width_;
  std::optional<std::uint64_t> datum_label_;
  std::span<const std::byte> datum_data_;
  std::span<const std::byte> fourth_, sixth_;
  std::vector<std::byte> four_, six_;
};

}  // namespace

std::string parse(std::span<const std::byte> bytes, RecordView& record) {
  record = {};
  return RecordParser(record).parse(bytes);
}

std::string encode(std::span<const std::int64_t> shape, std::optional<std::int32_t> label,
                   std::span<const std::byte> pixel, std::span<const std::byte> floats) {
  ProtobufWriter message;
  for (const std::int64_t extent : shape) message.varint(1, static_cast<std::uint64_t>(extent));
  if (label) message.varint(2, static_cast<std::uint64_t>(static_cast<std::int64_t>(*label)));
  if (!pixel.empty()) message.bytes(3, pixel);
  if (!floats.empty()) message.bytes(4, floats);
  return message.text();
}

}  // namespace data

Record parse_record(std::span<const std::byte> bytes, const std::string& where) {
  data::RecordView view;
  if (const std::string mistake = data::parse(bytes, view); !mistake.empty()) {
    throw FileError(fmt::format("{}: {}", where, mistake));
  }
  Record record{.shape = {view.shape().begin(), view.shape().end()}, .label = view.label};
  record.pixel.assign(reinterpret_cast<const char*>(view.pixel.data()), view.pixel.size());
  record.data.resize(view.floats.size() / sizeof(float));
  if (!view.floats.empty()) std::memcpy(record.data.data(), view.floats.data(), view.floats.size());
  return record;
}

std::string encode_record(const Record& record) {
  for (const std::int64_t extent : record.shape) {
    if (extent < 1 || extent > std::numeric_limits<std::int32_t>::max()) {
      throw InvalidArgument(fmt::format("a record's extents are 1 or more, and int32; received {}", extent));
    }
  }
  return data::encode(record.shape, record.label, std::as_bytes(std::span(record.pixel)),
                      std::as_bytes(std::span(record.data)));
}

}  // namespace pleiad

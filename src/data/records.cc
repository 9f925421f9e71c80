// Stores of records in SINGA's and Caffe's formats: kvfile and lmdb.
#include "pleiad/records.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "core/text.h"
#include "data/image.h"
#include "data/labels.h"
#include "data/list.h"
#include "data/picture.h"
#include "data/record.h"
#include "data/writer.h"
#include "pleiad/error.h"

namespace pleiad::data {

namespace {

struct RecordFile {
  std::unique_ptr<Pairs> pairs;
  std::int64_t first;  ///< index of its first record in the store
};

[[noreturn]] void fail_record(const Pairs& pairs, std::int64_t record, const std::string& what) {
  std::string key = pairs.key(record).substr(0, 40);
  for (char& letter : key) letter = letter >= ' ' && letter <= '~' ? letter : '?';
  throw FileError(fmt::format("{}: record {} (key \"{}\"): {}", pairs.name(), grouped(record), key, what));
}

/// The properties that all records of a store share, taken from the first record.
struct RecordFormat {
  Field data{.name = "data", .type = FieldType::uint8, .shape = {}};
  bool label = false;
  bool encoded = false;  ///< the pixels are PNG or JPEG files
  bool scaled = false;   ///< images are scaled to data.shape; otherwise they must have it
};

/// Decodes the image of a record to `channels` channels; 0 keeps those of the file.
Picture picture_of(const Pairs& pairs, std::int64_t record, const RecordView& view, std::int64_t channels) {
  if (view.pixel.empty()) fail_record(pairs, record, "expected an encoded image in its pixels; received none");
  return decode_picture(view.pixel, channels, fmt::format("{}: record {}", pairs.name(), grouped(record)));
}

RecordFormat format_of_pictures(const Pairs& pairs, const StoreOptions& options) {
  RecordView first;
  if (const std::string mistake = parse(pairs.value(0), first); !mistake.empty()) fail_record(pairs, 0, mistake);
  RecordFormat format{
      .label = options.label && first.label.has_value(), .encoded = true, .scaled = !options.shape.empty()};
  format.data.shape = options.shape;
  if (format.data.shape.size() == 2) format.data.shape.insert(format.data.shape.begin(), 1);
  if (options.shape.empty()) {
    const Picture picture = picture_of(pairs, 0, first, 0);
    format.data.shape = {picture.channels, picture.height, picture.width};
  }
  const std::vector<std::int64_t>& shape = format.data.shape;
  constexpr std::int64_t kMost = 1 << 16;
  if (shape.size() != 3 || (shape[0] != 1 && shape[0] != 3) || shape[1] < 1 || shape[1] > kMost || shape[2] < 1 ||
      shape[2] > kMost) {
    throw InvalidArgument(fmt::format("{}: encoded images have 1 or 3 channels, a height and a width; received [{}]",
                                      pairs.name(), fmt::join(options.shape, ", ")));
  }
  return format;
}

RecordFormat format_of(const Pairs& pairs, const StoreOptions& options) {
  if (options.encoded) return format_of_pictures(pairs, options);
  RecordView first;
  if (const std::string mistake = parse(pairs.value(0), first); !mistake.empty()) fail_record(pairs, 0, mistake);
  RecordFormat format;
  if (first.pixel.empty() && first.floats.empty()) fail_record(pairs, 0, "has neither pixels nor floats");
  if (!first.pixel.empty() && !first.floats.empty()) fail_record(pairs, 0, "has both pixels and floats");
  const bool bytes = !first.pixel.empty();
  format.data.type = bytes ? FieldType::uint8 : FieldType::float32;
  const auto count = static_cast<std::int64_t>(bytes ? first.pixel.size() : first.floats.size() / sizeof(float));
  format.data.shape.assign(first.shape().begin(), first.shape().end());
  if (!options.shape.empty()) format.data.shape = options.shape;
  if (format.data.shape.empty()) format.data.shape = {count};
  // Extents are int32 and there are at most eight of them. Comparing the product as it grows avoids overflow.
  std::int64_t product = 1;
  for (const std::int64_t extent : format.data.shape) {
    product = extent < 1 || product > count / extent ? -1 : product * extent;
    if (product < 0) break;
  }
  if (product != count) {
    fail_record(pairs, 0,
                fmt::format("its shape is [{}]; it has {} values", fmt::join(format.data.shape, ", "), count));
  }
  // Images without a channel axis get one channel.
  if (format.data.shape.size() == 2) format.data.shape.insert(format.data.shape.begin(), 1);
  format.label = options.label && first.label.has_value();
  return format;
}

class RecordStore final : public Store {
 public:
  RecordStore(std::string name, std::vector<RecordFile> parts, std::int64_t size, RecordFormat format,
              std::int64_t classes)
      : Store(std::move(name), size, fields_of(format)),
        parts_(std::move(parts)),
        format_(std::move(format)),
        classes_(classes) {}

 private:
  static std::vector<Field> fields_of(const RecordFormat& format) {
    std::vector<Field> fields = {format.data};
    if (format.label) fields.push_back(label_field());
    return fields;
  }

  void fetch(std::size_t field, std::span<const std::int64_t> records, const Window* window,
             std::byte* out) const override {
    RecordView view;
    for (const std::int64_t record : records) {
      const RecordFile& part = *std::prev(std::ranges::upper_bound(parts_, record, {}, &RecordFile::first));
      const std::int64_t inside = record - part.first;
      const Pairs& pairs = *part.pairs;
      if (const std::string mistake = parse(pairs.value(inside), view); !mistake.empty())
        fail_record(pairs, inside, mistake);
      // Also checked when only the image is read: an image without a valid label is a damaged record.
      if (format_.label) {
        if (!view.label) fail_record(pairs, inside, "has no label, but the first record has one");
        check_label(*view.label, classes_, pairs.name(), inside);
      }
      if (field == 1) {
        std::memcpy(out, &*view.label, sizeof *view.label);
        out += sizeof *view.label;
        continue;
      }
      if (format_.encoded) {
        out = copy_record(format_.data, pixels_of(pairs, inside, view).data(), window, out);
        continue;
      }
      const auto numbers = format_.data.type == FieldType::uint8 ? view.pixel : view.floats;
      if (numbers.size() != format_.data.bytes()) {
        fail_record(pairs, inside,
                    fmt::format("expected {} bytes of {}, as in the first record; received {}", format_.data.bytes(),
                                format_.data.type == FieldType::uint8 ? "pixels" : "floats", numbers.size()));
      }
      out = copy_record(format_.data, numbers.data(), window, out);
    }
  }

  [[nodiscard]] std::vector<std::byte> pixels_of(const Pairs& pairs, std::int64_t record,
                                                 const RecordView& view) const {
    const std::vector<std::int64_t>& shape = format_.data.shape;
    Picture picture = picture_of(pairs, record, view, shape[0]);
    if (picture.height != shape[1] || picture.width != shape[2]) {
      if (!format_.scaled) {
        fail_record(pairs, record,
                    fmt::format("expected an image of {} x {}, as in the first record; received {} x {}", shape[1],
                                shape[2], picture.height, picture.width));
      }
      picture = scaled(picture, shape[1], shape[2]);
    }
    const auto bytes = std::as_bytes(std::span(picture.pixels));
    return {bytes.begin(), bytes.end()};
  }

  std::vector<RecordFile> parts_;
  RecordFormat format_;
  std::int64_t classes_;
};

class RecordWriter final : public StoreWriter {
 public:
  explicit RecordWriter(const WriterOptions& options)
      : StoreWriter(options), pairs_(create_pairs(options.kind, options.paths.front())) {}

 private:
  void put(std::span<const std::byte> data, std::int32_t label) override {
    const WriterOptions& o = options();
    const bool bytes = o.data.type == FieldType::uint8;
    const std::span<const std::byte> none;
    pairs_->put(
        fmt::format("{:0{}}", size(), o.key_digits),
        encode(o.data.shape, o.label ? std::optional(label) : std::nullopt, bytes ? data : none, bytes ? none : data));
  }
  void finish() override { pairs_->commit(); }

  std::unique_ptr<PairWriter> pairs_;
};

}  // namespace

std::unique_ptr<Store> open_records(const StoreOptions& options) {
  std::vector<RecordFile> parts;
  std::int64_t size = 0;
  for (const std::string& path : options.paths) {
    auto pairs = open_pairs(options.kind, path);
    if (pairs->size() == 0) throw FileError(fmt::format("{}: has no records", pairs->name()));
    const std::int64_t count = pairs->size();
    parts.push_back({.pairs = std::move(pairs), .first = size});
    size += count;
  }
  RecordFormat format = format_of(*parts.front().pairs, options);
  return windowed(
      std::make_unique<RecordStore>(join(options.paths), std::move(parts), size, std::move(format), options.classes),
      options.window);
}

std::unique_ptr<StoreWriter> create_records(const WriterOptions& options) {
  expect_paths(options, 1, 1, "one path");
  expect_type(options, {FieldType::uint8, FieldType::float32});
  if (options.key_digits < 1 || options.key_digits > 18) {
    throw InvalidArgument(
        fmt::format("{}: key_digits: expected 1 to 18; received {}", options.kind, options.key_digits));
  }
  return std::make_unique<RecordWriter>(options);
}

}  // namespace pleiad::data

// IDX, the format of the MNIST family: two zero bytes, a byte for the element type, a byte for the rank, the extents as
// big-endian 32-bit numbers, and the elements.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "core/text.h"
#include "data/arrays.h"
#include "data/content.h"
#include "data/image.h"
#include "data/labels.h"
#include "data/list.h"
#include "pleiad/error.h"

namespace pleiad::data {

namespace {

constexpr std::byte kUnsignedByte{0x08};
constexpr std::size_t kMaxRank = 4;
constexpr std::int64_t kHeader = -1;

/// Reads the bytes of a plain or gzipped file in order.
class IdxReader {
 public:
  explicit IdxReader(const std::string& path) : file_(path) {
    if (is_gzip(file_.bytes())) inflater_.emplace(file_);
  }

  /// Fills `out` with data of a record. A negative `record` stands for the header, for messages.
  void read(std::span<std::byte> out, std::int64_t record) {
    std::size_t got = 0;
    if (inflater_) {
      got = inflater_->read(out);
    } else {
      got = std::min(out.size(), file_.bytes().size() - at_);
      if (got > 0) std::memcpy(out.data(), file_.bytes().data() + at_, got);
    }
    at_ += got;
    if (got != out.size()) {
      fail(fmt::format("is truncated in {}: expected {} more bytes, found {}",
                       record < 0 ? "its header" : "record " + grouped(record), out.size(), got));
    }
  }

  void expect_end() {
    std::byte more{};
    const bool has_more = inflater_ ? inflater_->read({&more, 1}) > 0 : at_ < file_.bytes().size();
    if (has_more) fail(fmt::format("continues after its last record, at byte {}", at_));
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw FileError(fmt::format("{}: {}", file_.path().string(), what));
  }

  [[nodiscard]] std::string path() const { return file_.path().string(); }
  /// Returns an upper bound of the file's content in bytes: deflate packs at most 1,032 to 1.
  [[nodiscard]] std::size_t limit() const { return file_.bytes().size() * (inflater_ ? 1032 : 1) + 1; }
  [[nodiscard]] bool mapped() const { return !inflater_; }
  [[nodiscard]] std::size_t at() const { return at_; }
  /// Gives up the file, for callers that map it.
  [[nodiscard]] MappedFile release() { return std::move(file_); }

 private:
  MappedFile file_;
  std::optional<Inflater> inflater_;
  std::size_t at_ = 0;
};

std::vector<std::int64_t> read_shape(IdxReader& reader) {
  std::byte magic[4];
  reader.read(magic, kHeader);
  const auto rank = static_cast<std::size_t>(magic[3]);
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0} || magic[2] != kUnsignedByte || rank < 1 ||
      rank > kMaxRank) {
    reader.fail(fmt::format(
        "is not an IDX file of unsigned bytes: expected 00 00 08 and a rank of 1 to {}, received {:02x} {:02x} "
        "{:02x} {:02x}",
        kMaxRank, static_cast<int>(magic[0]), static_cast<int>(magic[1]), static_cast<int>(magic[2]),
        static_cast<int>(magic[3])));
  }
  std::vector<std::int64_t> shape;
  std::int64_t bytes = 1;
  for (std::size_t d = 0; d < rank; ++d) {
    std::byte word[4];
    reader.read(word, kHeader);
    std::int64_t extent = 0;
    for (const std::byte byte : word) extent = extent << 8 | static_cast<std::int64_t>(byte);
    shape.push_back(extent);
    if (extent < 1) reader.fail(fmt::format("has the extent {} in dimension {}", extent, d));
    if (__builtin_mul_overflow(bytes, extent, &bytes)) reader.fail("is larger than the address space");
  }
  return shape;
}

Field image_field(const std::vector<std::int64_t>& shape) {
  Field field{.name = "data", .type = FieldType::uint8, .shape = {shape.begin() + 1, shape.end()}};
  // Images without a channel axis get one channel.
  if (field.shape.size() == 2) field.shape.insert(field.shape.begin(), 1);
  return field;
}

/// Reads all records and keeps the window of each.
std::vector<std::byte> read_records(IdxReader& reader, const Field& field, std::int64_t count, const Window* window) {
  Field kept = field;
  if (window != nullptr) {
    kept.shape[1] = window->height;
    kept.shape[2] = window->width;
  }
  // The header may be wrong: memory is only allocated for data that can exist, and grows with the data that is read.
  if (field.bytes() > reader.limit()) {
    reader.fail(fmt::format("is truncated in record 0: a record has {} bytes", grouped(field.count())));
  }
  std::vector<std::byte> record(field.bytes());
  std::vector<std::byte> records;
  const MemoryLimit limit(reader.path());
  for (std::int64_t i = 0; i < count; ++i) {
    reader.read(record, i);
    limit.check(records.size() + kept.bytes());
    records.resize(records.size() + kept.bytes());
    copy_record(field, record.data(), window, records.data() + records.size() - kept.bytes());
  }
  reader.expect_end();
  return records;
}

std::vector<std::byte> read_labels(const std::string& path, std::int64_t classes, std::int64_t images,
                                   const std::string& images_path) {
  IdxReader reader(path);
  const auto shape = read_shape(reader);
  if (shape.size() != 1) reader.fail(fmt::format("expected labels, of rank 1; its rank is {}", shape.size()));
  if (shape[0] != images) {
    reader.fail(fmt::format("has {} labels; {} has {} images", grouped(shape[0]), images_path, grouped(images)));
  }
  const auto bytes = read_records(reader, {.name = {}, .type = FieldType::uint8, .shape = {}}, shape[0], nullptr);
  std::vector<std::byte> labels(bytes.size() * sizeof(std::int32_t));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto label = static_cast<std::int32_t>(bytes[i]);
    check_label(label, classes, path, static_cast<std::int64_t>(i));
    std::memcpy(labels.data() + i * sizeof label, &label, sizeof label);
  }
  return labels;
}

/// Images of a plain file, mapped: only what is requested is read.
class MappedIdx final : public Store {
 public:
  MappedIdx(MappedFile file, std::size_t first, std::int64_t count, Field field, std::vector<std::byte> labels)
      : Store(file.path().string(), count, fields_of(std::move(field), !labels.empty())),
        file_(std::move(file)),
        first_(first),
        labels_(std::move(labels)) {}

 private:
  static std::vector<Field> fields_of(Field field, bool labelled) {
    std::vector<Field> fields = {std::move(field)};
    if (labelled) fields.push_back(label_field());
    return fields;
  }

  void fetch(std::size_t field, std::span<const std::int64_t> records, const Window* window,
             std::byte* out) const override {
    const Field& wanted = fields()[field];
    const std::byte* from = field == 0 ? file_.bytes().data() + first_ : labels_.data();
    for (const std::int64_t record : records) {
      out = copy_record(wanted, from + static_cast<std::size_t>(record) * wanted.bytes(), window, out);
    }
  }

  MappedFile file_;
  std::size_t first_;
  std::vector<std::byte> labels_;
};

}  // namespace

std::unique_ptr<Store> open_idx(const StoreOptions& options) {
  if (options.paths.size() > 2) {
    throw InvalidArgument(fmt::format("[open_store] idx: expected images, or images and labels; received {} paths",
                                      options.paths.size()));
  }
  const std::string& path = options.paths[0];
  IdxReader reader(path);
  const auto shape = read_shape(reader);
  const Field field = image_field(shape);
  std::vector<std::byte> labels;
  if (options.paths.size() == 2) labels = read_labels(options.paths[1], options.classes, shape[0], path);
  if (reader.mapped()) {
    const std::size_t first = reader.at();
    MappedFile file = reader.release();
    const std::size_t there = file.bytes().size() - first;
    const auto each = static_cast<std::size_t>(field.count());
    if (there / each < static_cast<std::size_t>(shape[0]) || there != each * static_cast<std::size_t>(shape[0])) {
      throw FileError(fmt::format(
          "{}: expected {} records of {} bytes, found {} bytes: {}", path, grouped(shape[0]), each, there,
          there / each < static_cast<std::size_t>(shape[0])
              ? fmt::format("it is truncated in record {}", grouped(static_cast<std::int64_t>(there / each)))
              : "it continues after its last record"));
    }
    return windowed(std::make_unique<MappedIdx>(std::move(file), first, shape[0], field, std::move(labels)),
                    options.window);
  }
  // Gzipped records are read sequentially; only the window of each is kept.
  const Window* window = options.window ? &*options.window : nullptr;
  std::vector<OwnedField> fields;
  if (window != nullptr) {
    // Throws if the window is invalid.
    const std::vector<ArrayField> none = {{.field = field, .bytes = {}}};
    open_arrays(none, path)->read_window(0, {}, *window, {});
  }
  fields.push_back({.field = field, .bytes = read_records(reader, field, shape[0], window)});
  if (window != nullptr) {
    fields[0].field.shape[1] = window->height;
    fields[0].field.shape[2] = window->width;
  }
  if (!labels.empty()) fields.push_back({.field = label_field(), .bytes = std::move(labels)});
  return keep_arrays(path, std::move(fields));
}

}  // namespace pleiad::data

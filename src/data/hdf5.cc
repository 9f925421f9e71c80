// HDF5 files: a dataset of records along its first axis, and a dataset of labels. The program pleiad-hdf5 reads and
// writes the format. Contiguous data is mapped from the file; other data is kept in memory.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/text.h"
#include "data/helper_process.h"
#include "data/image.h"
#include "data/labels.h"
#include "data/list.h"
#include "data/writer.h"
#include "file/atomic_path.h"
#include "file/mapped.h"
#include "pleiad/error.h"

namespace pleiad::data {

namespace {

using nlohmann::json;

constexpr const char* kProgram = "pleiad-hdf5";
constexpr FieldType kTypes[] = {FieldType::uint8, FieldType::float32, FieldType::float64, FieldType::int32,
                                FieldType::int64};

struct Hdf5File {
  MappedFile file;                ///< mapped data, if it is contiguous in the file
  std::vector<std::byte> memory;  ///< data that is not contiguous in the file
  const std::byte* data = nullptr;
  std::int64_t first = 0;
  std::int64_t size = 0;
  Field field;
  std::vector<std::int32_t> labels;
};

[[noreturn]] void fail_hdf5(const std::string& path, const std::string& what) {
  throw FileError(fmt::format("{}: {}", path, what));
}

/// Reads the program's answer. The program is trusted; the file is not.
json answer(HelperProcess& helper, const std::string& path) {
  json head = json::parse(helper.read_line(), nullptr, false);
  if (head.is_discarded()) fail_hdf5(path, "is damaged");
  if (head.contains("error")) fail_hdf5(path, head["error"].get<std::string>());
  return head;
}

std::vector<std::int32_t> labels_of(HelperProcess& helper, const std::string& path, std::int64_t count,
                                    std::int64_t classes) {
  std::vector<std::int32_t> labels;
  std::vector<double> numbers(static_cast<std::size_t>(count));
  helper.read(std::as_writable_bytes(std::span(numbers)));
  for (const double number : numbers) {
    const auto record = static_cast<std::int64_t>(labels.size());
    if (number != std::floor(number) || std::abs(number) > std::numeric_limits<std::int32_t>::max()) {
      fail_hdf5(path, fmt::format("record {}: expected an integer label; received {}", grouped(record), number));
    }
    check_label(static_cast<std::int64_t>(number), classes, path, record);
    labels.push_back(static_cast<std::int32_t>(number));
  }
  return labels;
}

Hdf5File read_part(const std::string& path, const StoreOptions& options) {
  Hdf5File part;
  part.file = MappedFile(path);  // reports problems with the path itself
  std::vector<std::string> words = {"read", path};
  if (options.datasets.empty()) {
    words.emplace_back("data");
    if (options.label) words.emplace_back("?label");
  } else {
    words.insert(words.end(), options.datasets.begin(), options.datasets.end());
  }
  HelperProcess helper(kProgram, words, path);
  helper.close_input();
  const json head = answer(helper, path);
  const json& data = head.at("datasets").at(0);
  auto shape = data.at("shape").get<std::vector<std::int64_t>>();
  part.size = shape[0];
  part.field = {
      .name = "data",
      .type = *std::ranges::find(kTypes, data.at("type").get<std::string>(), [](FieldType t) { return name_of(t); }),
      .shape = {shape.begin() + 1, shape.end()}};
  if (part.field.shape.empty()) part.field.shape = {1};
  if (!options.shape.empty()) {
    const Field wanted{.name = {}, .type = part.field.type, .shape = options.shape};
    if (wanted.count() != part.field.count()) {
      fail_hdf5(path, fmt::format("the shape [{}] needs {} values; a record has [{}]", fmt::join(options.shape, ", "),
                                  wanted.count(), fmt::join(part.field.shape, ", ")));
    }
    part.field.shape = options.shape;
  }
  const std::size_t bytes = part.field.bytes() * static_cast<std::size_t>(part.size);
  if (const auto offset = data.at("offset").get<std::int64_t>(); offset >= 0) {
    const std::size_t there = part.file.bytes().size();
    const auto from = static_cast<std::size_t>(offset);
    if (from > there || bytes > there - from) {
      fail_hdf5(path, fmt::format("is truncated in record {}",
                                  from > there ? 0 : (there - from) / std::max<std::size_t>(part.field.bytes(), 1)));
    }
    part.data = part.file.bytes().data() + from;
  } else {
    constexpr std::size_t kPiece = std::size_t{16} << 20;
    while (part.memory.size() < bytes) {  // grows with the data that arrives
      const std::size_t done = part.memory.size();
      part.memory.resize(std::min(bytes, done + kPiece));
      helper.read(std::span(part.memory).subspan(done));
    }
    part.data = part.memory.data();
  }
  if (head.at("datasets").size() > 1) {
    const auto labels = head.at("datasets").at(1).at("shape").get<std::vector<std::int64_t>>();
    std::int64_t count = 1;
    for (const std::int64_t extent : labels) count *= extent;
    if (labels[0] != part.size || count != part.size) {
      fail_hdf5(path, fmt::format("has {} records and labels of the shape [{}]", grouped(part.size),
                                  fmt::join(labels, ", ")));
    }
    part.labels = labels_of(helper, path, part.size, options.classes);
  }
  return part;
}

class Hdf5 final : public Store {
 public:
  Hdf5(std::string name, std::int64_t size, std::vector<Hdf5File> parts)
      : Store(std::move(name), size, fields_of(parts.front())), parts_(std::move(parts)) {}

 private:
  static std::vector<Field> fields_of(const Hdf5File& part) {
    std::vector<Field> fields = {part.field};
    if (!part.labels.empty()) fields.push_back(label_field());
    return fields;
  }

  void fetch(std::size_t field, std::span<const std::int64_t> records, const Window* window,
             std::byte* out) const override {
    for (const std::int64_t record : records) {
      const Hdf5File& part = *std::prev(std::ranges::upper_bound(parts_, record, {}, &Hdf5File::first));
      const auto inside = static_cast<std::size_t>(record - part.first);
      const std::byte* const from = field == 0 ? part.data + inside * part.field.bytes()
                                               : reinterpret_cast<const std::byte*>(&part.labels[inside]);
      out = copy_record(fields()[field], from, window, out);
    }
  }

  std::vector<Hdf5File> parts_;
};

/// The number of records must be known before the first is written, so they are kept in a temporary file without a
/// name.
class Hdf5Writer final : public StoreWriter {
 public:
  explicit Hdf5Writer(const WriterOptions& options)
      : StoreWriter(options), place_(options.paths.front(), false), records_(std::tmpfile(), std::fclose) {
    if (records_ == nullptr)
      fail_hdf5(options.paths.front(), fmt::format("no temporary file: {}", std::strerror(errno)));
  }

 private:
  void put(std::span<const std::byte> data, std::int32_t label) override {
    if (std::fwrite(data.data(), 1, data.size(), records_.get()) != data.size()) {
      fail_hdf5(options().paths.front(), fmt::format("record {}: {}", grouped(size()), std::strerror(errno)));
    }
    labels_.push_back(label);
  }

  void finish() override {
    const std::string& path = options().paths.front();
    std::vector<std::int64_t> shape = options().data.shape;
    shape.insert(shape.begin(), size());
    json sets = json::array();
    sets.push_back({{"name", "data"}, {"type", name_of(options().data.type)}, {"shape", shape}});
    if (options().label) sets.push_back({{"name", "label"}, {"type", "int32"}, {"shape", {size()}}});
    HelperProcess helper(kProgram, {"write", place_.temporary().string()}, path);
    helper.write(json{{"datasets", sets}}.dump() + "\n");
    const auto check = [&](bool good) {
      if (!good) fail_hdf5(path, fmt::format("the temporary file of its records: {}", std::strerror(errno)));
    };
    check(std::fseek(records_.get(), 0, SEEK_SET) == 0);  // writes what is still in memory
    std::vector<std::byte> buffer(std::size_t{1} << 20);
    std::size_t got = 0;
    while ((got = std::fread(buffer.data(), 1, buffer.size(), records_.get())) > 0) {
      helper.write(std::span(buffer).first(got));
    }
    check(std::ferror(records_.get()) == 0);
    if (options().label) helper.write(std::as_bytes(std::span(labels_)));
    helper.close_input();
    (void)answer(helper, path);
    place_.commit();
  }

  AtomicPath place_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> records_;
  std::vector<std::int32_t> labels_;
};

}  // namespace

std::unique_ptr<Store> open_hdf5(const StoreOptions& options) {
  if (options.datasets.size() > 2) {
    throw InvalidArgument(
        fmt::format("[open_store] hdf5: expected names of data and label; received {}", join(options.datasets)));
  }
  std::vector<Hdf5File> parts;
  std::int64_t size = 0;
  for (const std::string& path : options.paths) {
    Hdf5File part = read_part(path, options);
    part.first = size;
    size += part.size;
    if (!parts.empty() && (part.field.type != parts[0].field.type || part.field.shape != parts[0].field.shape ||
                           part.labels.empty() != parts[0].labels.empty())) {
      fail_hdf5(path, fmt::format("expected {} of shape [{}]{}, as in {}", name_of(parts[0].field.type),
                                  fmt::join(parts[0].field.shape, ", "), parts[0].labels.empty() ? "" : " with labels",
                                  options.paths[0]));
    }
    parts.push_back(std::move(part));
  }
  return windowed(std::make_unique<Hdf5>(join(options.paths), size, std::move(parts)), options.window);
}

std::unique_ptr<StoreWriter> create_hdf5(const WriterOptions& options) {
  expect_paths(options, 1, 1, "one path");
  expect_type(options, {FieldType::uint8, FieldType::float32, FieldType::float64, FieldType::int32, FieldType::int64});
  return std::make_unique<Hdf5Writer>(options);
}

}  // namespace pleiad::data

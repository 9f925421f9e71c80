// LIBSVM's text format: "label index:value index:value ...", one record per line. Indices start at 1 and increase;
// elements that are not listed are 0.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <iterator>

#include "core/text.h"
#include "data/arrays.h"
#include "data/content.h"
#include "data/image.h"
#include "data/labels.h"
#include "data/list.h"
#include "data/writer.h"
#include "pleiad/error.h"
#include "pleiad/records.h"

namespace pleiad::data {

namespace {

constexpr std::int64_t kMaxIndex = 1 << 30;
constexpr std::int64_t kDenseUnasked = 1 << 20;

class LibsvmParser {
 public:
  explicit LibsvmParser(const StoreOptions& options) : options_(options) {}

  void parse(const std::string& path) {
    const Content content(path);
    path_ = path;
    record_ = 0;
    for_each_line(content.bytes(), [&](std::string_view line, std::int64_t number) {
      line_ = number;
      line = line.substr(0, line.find('#'));
      std::string_view label;
      if (!next_word(line, label)) return;
      parse_line(label, line);
      ++record_;
    });
    if (record_ == 0) throw FileError(fmt::format("{}: has no records", path));
  }

  std::unique_ptr<Store> finish() {
    std::vector<OwnedField> fields = options_.sparse ? sparse() : dense();
    fields.push_back({.field = label_field(), .bytes = bytes_of(labels_)});
    return keep_arrays(join(options_.paths), std::move(fields));
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw FileError(fmt::format("{}:{}: record {}: {}", path_, line_, grouped(record_), what));
  }

  static bool next_word(std::string_view& line, std::string_view& word) {
    constexpr const char* kBlank = " \t\r";
    line.remove_prefix(std::min(line.find_first_not_of(kBlank), line.size()));
    word = line.substr(0, line.find_first_of(kBlank));
    line.remove_prefix(word.size());
    return !word.empty();
  }

  template <class T>
  static bool read(std::string_view text, T& value) {
    if (text.starts_with('+')) text.remove_prefix(1);
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    return problem == std::errc() && end == text.data() + text.size() && !text.empty();
  }

  void parse_line(std::string_view first, std::string_view line) {
    float label = 0;
    if (!read(first, label) || label != std::floor(label) || std::abs(label) > 16777216.0F) {
      fail(fmt::format("expected an integer label; received \"{}\"", printable(first.substr(0, 40))));
    }
    // Labels of two classes are often -1 and +1 in this format, so they are only checked if `classes` is set.
    if (options_.classes > 0) {
      check_label(static_cast<std::int64_t>(label), options_.classes, fmt::format("{}:{}", path_, line_), record_);
    }
    labels_.push_back(static_cast<std::int32_t>(label));
    std::int64_t last = 0;
    std::string_view word;
    while (next_word(line, word)) {
      const std::size_t colon = word.find(':');
      std::int64_t index = 0;
      float value = 0;
      if (colon == std::string_view::npos || !read(word.substr(0, colon), index) ||
          !read(word.substr(colon + 1), value) || !std::isfinite(value)) {
        fail(fmt::format("expected index:number, received \"{}\"", printable(word.substr(0, 40))));
      }
      if (index <= last || index > kMaxIndex) {
        fail(fmt::format("expected an index above {} and up to {}; received {}", last, kMaxIndex, index));
      }
      last = index;
      indices_.push_back(static_cast<std::int32_t>(index - 1));
      values_.push_back(value);
    }
    greatest_ = std::max(greatest_, last);
    ends_.push_back(indices_.size());
    most_ = std::max(most_, ends_.back() - (ends_.size() > 1 ? ends_[ends_.size() - 2] : 0));
  }

  template <class T>
  static std::vector<std::byte> bytes_of(const std::vector<T>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    return {bytes.begin(), bytes.end()};
  }

  /// Calls each(record, position in the record, position among all) for every listed element.
  template <class F>
  void for_each(F&& each) const {
    std::size_t at = 0;
    for (std::size_t record = 0; record < ends_.size(); ++record) {
      for (std::size_t place = 0; at < ends_[record]; ++place, ++at) each(record, place, at);
    }
  }

  std::vector<OwnedField> dense() const {
    Field field{.name = "data", .type = FieldType::float32, .shape = options_.shape};
    if (field.shape.empty()) field.shape = {std::max<std::int64_t>(greatest_, 1)};
    if (greatest_ > field.count()) {
      throw FileError(fmt::format("{}: the shape [{}] has {} values; the largest index is {}", join(options_.paths),
                                  fmt::join(field.shape, ", "), field.count(), greatest_));
    }
    // A single wrong index would make every record that long.
    if (options_.shape.empty() && greatest_ > kDenseUnasked) {
      throw FileError(
          fmt::format("{}: the largest index is {}; give the shape of such long records, or read them as sparse",
                      join(options_.paths), greatest_));
    }
    const auto each = static_cast<std::size_t>(field.count());
    std::vector<std::byte> numbers(ends_.size() * field.bytes());
    for_each([&](std::size_t record, std::size_t, std::size_t at) {
      std::memcpy(numbers.data() + (record * each + static_cast<std::size_t>(indices_[at])) * sizeof(float),
                  &values_[at], sizeof(float));
    });
    std::vector<OwnedField> fields;
    fields.push_back({.field = std::move(field), .bytes = std::move(numbers)});
    return fields;
  }

  /// Pads each record to the length of the longest one with index -1 and value 0.
  std::vector<OwnedField> sparse() const {
    const std::size_t most = std::max<std::size_t>(most_, 1);
    std::vector<std::int32_t> indices(ends_.size() * most, -1);
    std::vector<float> values(ends_.size() * most, 0);
    for_each([&](std::size_t record, std::size_t place, std::size_t at) {
      indices[record * most + place] = indices_[at];
      values[record * most + place] = values_[at];
    });
    const std::vector<std::int64_t> shape = {static_cast<std::int64_t>(most)};
    std::vector<OwnedField> fields;
    fields.push_back(
        {.field = {.name = "index", .type = FieldType::int32, .shape = shape}, .bytes = bytes_of(indices)});
    fields.push_back(
        {.field = {.name = "value", .type = FieldType::float32, .shape = shape}, .bytes = bytes_of(values)});
    return fields;
  }

  const StoreOptions& options_;
  std::string path_;
  std::int64_t line_ = 0;
  std::int64_t record_ = 0;
  std::int64_t greatest_ = 0;
  std::size_t most_ = 0;
  std::vector<std::int32_t> labels_;
  std::vector<std::int32_t> indices_;  // counted from 0
  std::vector<float> values_;
  std::vector<std::size_t> ends_;  // end of each record in indices_ and values_
};

class LibsvmWriter final : public StoreWriter {
 public:
  explicit LibsvmWriter(const WriterOptions& options)
      : StoreWriter(options), lines_(create_pairs("textfile", options.paths.front())) {}

 private:
  void put(std::span<const std::byte> data, std::int32_t label) override {
    line_.clear();
    auto out = std::back_inserter(line_);
    fmt::format_to(out, "{}", options().label ? label : 0);
    const bool bytes = options().data.type == FieldType::uint8;
    for (std::int64_t i = 0; i < options().data.count(); ++i) {
      float value = 0;
      if (bytes) {
        value = static_cast<float>(data[static_cast<std::size_t>(i)]);
      } else {
        std::memcpy(&value, data.data() + static_cast<std::size_t>(i) * sizeof value, sizeof value);
      }
      if (value != 0) fmt::format_to(out, " {}:{}", i + 1, value);
    }
    lines_->put({}, std::string_view(line_));
  }
  void finish() override { lines_->commit(); }

  std::unique_ptr<PairWriter> lines_;
  std::string line_;
};

}  // namespace

std::unique_ptr<Store> open_libsvm(const StoreOptions& options) {
  LibsvmParser parser(options);
  for (const std::string& path : options.paths) parser.parse(path);
  return windowed(parser.finish(), options.window);
}

std::unique_ptr<StoreWriter> create_libsvm(const WriterOptions& options) {
  expect_paths(options, 1, 1, "one path");
  expect_type(options, {FieldType::uint8, FieldType::float32});
  return std::make_unique<LibsvmWriter>(options);
}

}  // namespace pleiad::data

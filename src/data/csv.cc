// Numbers as text: one record per line, with the label first.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <cstring>

#include "core/text.h"
#include "data/arrays.h"
#include "data/content.h"
#include "data/image.h"
#include "data/labels.h"
#include "data/list.h"
#include "pleiad/error.h"

namespace pleiad::data {

namespace {

class CsvParser {
 public:
  explicit CsvParser(const StoreOptions& options) : options_(options) {}

  void parse(const std::string& path) {
    const Content content(path);
    path_ = path;
    record_ = 0;
    for_each_line(content.bytes(), [&](std::string_view line, std::int64_t number) {
      line_ = number;
      if (line.find_first_not_of(" \t") == std::string_view::npos || (options_.header && number == 1)) return;
      parse_line(line);
      ++record_;
    });
    if (record_ == 0) throw FileError(fmt::format("{}: has no records", path));
  }

  std::unique_ptr<Store> finish() {
    std::vector<std::int64_t> shape = options_.shape;
    if (shape.empty()) shape = {columns_};
    std::vector<OwnedField> fields;
    fields.push_back(
        {.field = {.name = "data", .type = FieldType::float32, .shape = shape}, .bytes = std::move(numbers_)});
    if (options_.label) fields.push_back({.field = label_field(), .bytes = std::move(labels_)});
    return keep_arrays(join(options_.paths), std::move(fields));
  }

 private:
  [[noreturn]] void fail(std::int64_t column, const std::string& what) const {
    throw FileError(fmt::format("{}:{}: record {}, column {}: {}", path_, line_, grouped(record_), column, what));
  }

  template <class T>
  static void append(std::vector<std::byte>& to, T value) {
    to.resize(to.size() + sizeof value);
    std::memcpy(to.data() + to.size() - sizeof value, &value, sizeof value);
  }

  float number(std::string_view text, std::int64_t column) const {
    const std::string_view whole = text;
    text = text.substr(std::min(text.find_first_not_of(" \t"), text.size()));
    text = text.substr(0, text.find_last_not_of(" \t") + 1);
    if (text.starts_with('+')) text.remove_prefix(1);
    float value = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (problem != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
      fail(column, fmt::format("expected a finite number, received \"{}\"", printable(whole.substr(0, 40))));
    }
    return value;
  }

  void parse_line(std::string_view line) {
    std::int64_t column = 0;
    std::int64_t count = 0;
    while (true) {
      const std::size_t end = std::min(line.find(options_.separator), line.size());
      ++column;
      const float value = number(line.substr(0, end), column);
      if (options_.label && column == 1) {
        // A float represents every integer up to 2^24 exactly.
        if (value != std::floor(value) || std::abs(value) > 16777216.0F) {
          fail(column, fmt::format("expected an integer label; received {}",
                                   printable(line.substr(0, std::min<std::size_t>(end, 40)))));
        }
        const auto label = static_cast<std::int32_t>(value);
        check_label(label, options_.classes, fmt::format("{}:{}", path_, line_), record_);
        append(labels_, label);
      } else {
        append(numbers_, value);
        ++count;
      }
      if (end == line.size()) break;
      line.remove_prefix(end + 1);
    }
    if (columns_ < 0) {
      columns_ = count;
      const Field wanted{.name = {}, .type = FieldType::float32, .shape = options_.shape};
      if (!options_.shape.empty() && wanted.count() != count) {
        fail(column, fmt::format("the shape [{}] needs {} values; the line has {}", fmt::join(options_.shape, ", "),
                                 wanted.count(), count));
      }
      if (count == 0) fail(column, "expected values after the label");
    }
    if (count != columns_) {
      fail(column, fmt::format("expected {} values, as in earlier records; the line has {}", columns_, count));
    }
  }

  const StoreOptions& options_;
  std::string path_;
  std::int64_t line_ = 0;
  std::int64_t record_ = 0;
  std::int64_t columns_ = -1;
  std::vector<std::byte> numbers_;
  std::vector<std::byte> labels_;
};

}  // namespace

std::unique_ptr<Store> open_csv(const StoreOptions& options) {
  CsvParser parser(options);
  for (const std::string& path : options.paths) parser.parse(path);
  return windowed(parser.finish(), options.window);
}

}  // namespace pleiad::data

// Writers of csv and textfile: one record per line, with the label first.
#include <fmt/format.h>

#include <cstring>
#include <iterator>

#include "data/list.h"
#include "data/writer.h"
#include "pleiad/records.h"

namespace pleiad::data {

namespace {

class TextRecords final : public StoreWriter {
 public:
  explicit TextRecords(const WriterOptions& options)
      : StoreWriter(options), lines_(create_pairs("textfile", options.paths.front())) {}

 private:
  void put(std::span<const std::byte> data, std::int32_t label) override {
    line_.clear();
    auto out = std::back_inserter(line_);
    if (options().label) fmt::format_to(out, "{}", label);
    const auto numbers = [&]<class T>(T value) {
      for (std::size_t at = 0; at < data.size(); at += sizeof value) {
        if (!line_.empty()) line_ += options().separator;
        std::memcpy(&value, data.data() + at, sizeof value);
        fmt::format_to(out, "{}", value);  // the shortest text that reads back as the same number
      }
    };
    if (options().data.type == FieldType::uint8) {
      numbers(std::uint8_t{});
    } else {
      numbers(float{});
    }
    lines_->put({}, std::string_view(line_));
  }
  void finish() override { lines_->commit(); }

  std::unique_ptr<PairWriter> lines_;
  std::string line_;
};

}  // namespace

std::unique_ptr<StoreWriter> create_text(const WriterOptions& options) {
  expect_paths(options, 1, 1, "one path");
  expect_type(options, {FieldType::uint8, FieldType::float32});
  return std::make_unique<TextRecords>(options);
}

}  // namespace pleiad::data

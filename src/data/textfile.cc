// SINGA's textfile: each line is a record, and its key is the line number counted from 0.
#include <fmt/format.h>

#include <vector>

#include "core/text.h"
#include "data/content.h"
#include "data/pairs.h"
#include "file/atomic.h"
#include "pleiad/error.h"

namespace pleiad::data {

namespace {

class TextFile final : public Pairs {
 public:
  explicit TextFile(const std::string& path) : Pairs(path), content_(path) {
    for_each_line(content_.bytes(), [&](std::string_view line, std::int64_t) { lines_.push_back(line); });
  }

  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(lines_.size()); }
  [[nodiscard]] std::string key(std::int64_t index) const override { return fmt::format("{}", index); }
  [[nodiscard]] std::span<const std::byte> value(std::int64_t index) const override {
    return std::as_bytes(std::span(lines_.at(static_cast<std::size_t>(index))));
  }

 private:
  Content content_;
  std::vector<std::string_view> lines_;
};

class TextWriter final : public PairWriter {
 public:
  explicit TextWriter(const std::string& path) : file_(path) {}

  void put(std::string_view /*key*/, std::span<const std::byte> value) override {
    const std::string_view line(reinterpret_cast<const char*>(value.data()), value.size());
    if (const std::size_t at = line.find('\n'); at != std::string_view::npos) {
      throw InvalidArgument(
          fmt::format("record {}: expected one line per record; received a line end at byte {}", grouped(count_), at));
    }
    ++count_;
    buffer_ += line;
    buffer_ += '\n';
    if (buffer_.size() >= kBuffer) flush();
  }
  void commit() override {
    flush();
    file_.commit();
  }

 private:
  static constexpr std::size_t kBuffer = std::size_t{1} << 20;

  void flush() {
    file_.write(buffer_);
    buffer_.clear();
  }

  AtomicFile file_;
  std::string buffer_;
  std::int64_t count_ = 0;
};

}  // namespace

std::unique_ptr<Pairs> open_textfile(const std::string& path) { return std::make_unique<TextFile>(path); }

std::unique_ptr<PairWriter> create_textfile(const std::string& path) { return std::make_unique<TextWriter>(path); }

}  // namespace pleiad::data

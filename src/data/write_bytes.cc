// Writers of idx, cifar10 and cifar10_python, whose records are unsigned bytes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/text.h"
#include "data/cifar10.h"
#include "data/labels.h"
#include "data/list.h"
#include "data/writer.h"
#include "file/atomic.h"
#include "pleiad/error.h"

namespace pleiad::data {

namespace {

constexpr std::size_t kBuffer = std::size_t{1} << 20;

[[noreturn]] void refuse_label(const WriterOptions& options, std::int64_t record, std::int32_t label, int most) {
  throw InvalidArgument(fmt::format("{}: record {}: a {} store: expected a label from 0 to {}; received {}",
                                    options.paths.front(), grouped(record), options.kind, most, label));
}

class Cifar10Writer final : public StoreWriter {
 public:
  explicit Cifar10Writer(const WriterOptions& options) : StoreWriter(options), file_(options.paths.front()) {}

 private:
  void put(std::span<const std::byte> data, std::int32_t label) override {
    if (label < 0 || label >= kCifarClasses) refuse_label(options(), size(), label, kCifarClasses - 1);
    buffer_.push_back(static_cast<std::byte>(label));
    buffer_.insert(buffer_.end(), data.begin(), data.end());
    if (buffer_.size() >= kBuffer) flush();
  }
  void finish() override {
    flush();
    file_.commit();
  }
  void flush() {
    file_.write(buffer_);
    buffer_.clear();
  }

  AtomicFile file_;
  std::vector<std::byte> buffer_;
};

/// The header contains the number of records, so all records are kept until the end.
class IdxWriter final : public StoreWriter {
 public:
  explicit IdxWriter(const WriterOptions& options) : StoreWriter(options) {}

 private:
  void put(std::span<const std::byte> data, std::int32_t label) override {
    constexpr int kMost = 255;
    if (options().label && (label < 0 || label > kMost)) refuse_label(options(), size(), label, kMost);
    images_.insert(images_.end(), data.begin(), data.end());
    labels_.push_back(static_cast<std::byte>(label));
  }

  void finish() override {
    std::vector<std::int64_t> shape = options().data.shape;
    // IDX files of images with one channel have no channel axis.
    if (shape.size() == 3 && shape[0] == 1) shape.erase(shape.begin());
    shape.insert(shape.begin(), size());
    std::optional<AtomicFile> labels;
    if (options().label) {
      labels.emplace(options().paths[1]);
      labels->write(header({size()}));
      labels->write(labels_);
    }
    AtomicFile images(options().paths[0]);
    images.write(header(shape));
    images.write(images_);
    images.commit();
    if (labels) labels->commit();
  }

  static std::vector<std::byte> header(const std::vector<std::int64_t>& shape) {
    std::vector<std::byte> bytes = {std::byte{0}, std::byte{0}, std::byte{8}, static_cast<std::byte>(shape.size())};
    for (const std::int64_t extent : shape) {
      for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<std::byte>(extent >> shift & 0xFF));
    }
    return bytes;
  }

  std::vector<std::byte> images_;
  std::vector<std::byte> labels_;
};

/// Writes a batch in the format of the original files: as Python 2 pickles it, so that readers for Python 2 and 3 (with
/// encoding="bytes" or "latin1") can load it. The array's header contains the number of records, so all records are
/// kept until the end.
class Cifar10PythonWriter final : public StoreWriter {
 public:
  explicit Cifar10PythonWriter(const WriterOptions& options) : StoreWriter(options) {}

 private:
  static constexpr std::int64_t kImage = 3 * kCifarPixels;
  static constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max() / kImage;

  void put(std::span<const std::byte> data, std::int32_t label) override {
    if (label < 0 || label >= kCifarClasses) refuse_label(options(), size(), label, kCifarClasses - 1);
    if (size() >= kMost) {
      throw InvalidArgument(
          fmt::format("{}: a pickled batch holds at most {} records", options().paths.front(), grouped(kMost)));
    }
    images_.insert(images_.end(), data.begin(), data.end());
    labels_ += {'K', static_cast<char>(label)};
  }

  void finish() override {
    AtomicFile file(options().paths.front());
    file.write(std::string("\x80\x02}(") + text("batch_label") + text("training batch 1 of 1") + text("labels") + "](" +
               labels_ + "e" + text("data") + array_head());
    file.write(images_);
    std::string rest = "tb" + text("filenames") + "](";
    for (std::int64_t i = 0; i < size(); ++i) rest += text(fmt::format("{:06}.png", i));
    file.write(rest + "eu.");
    file.commit();
  }

  /// Returns NumPy's call that makes an empty array, and the state that fills it, up to the bytes.
  [[nodiscard]] std::string array_head() const {
    constexpr std::string_view kNoField("NNNJ\xFF\xFF\xFF\xFFJ\xFF\xFF\xFF\xFFK\0tb", 17);
    return "cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n" + byte(0) + "\x85" + text("b") + "\x87R(" +
           byte(1) + "J" + number(size()) + "J" + number(kImage) + "\x86" + "cnumpy\ndtype\n" + text("u1") + byte(0) +
           byte(1) + "\x87R(" + byte(3) + text("|") + std::string(kNoField) + "\x89T" + number(size() * kImage);
  }
  static std::string byte(int value) { return {'K', static_cast<char>(value)}; }
  static std::string text(std::string_view words) {
    return std::string{'U', static_cast<char>(words.size())} + std::string(words);
  }
  /// Returns four bytes, little-endian.
  static std::string number(std::int64_t value) {
    std::string bytes;
    for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(value >> shift & 0xFF);
    return bytes;
  }

  std::vector<std::byte> images_;
  std::string labels_;
};

/// Throws InvalidArgument unless the records have the form of CIFAR-10's.
void expect_cifar10(const WriterOptions& options) {
  expect_type(options, {FieldType::uint8});
  expect_paths(options, 1, 1, "one path");
  if (options.label && options.data.shape == std::vector<std::int64_t>{3, kCifarSide, kCifarSide}) return;
  throw InvalidArgument(fmt::format("{}: CIFAR-10's records have labels and the shape [3, 32, 32]; received {}[{}]",
                                    options.paths.front(), options.label ? "" : "no labels, and ",
                                    fmt::join(options.data.shape, ", ")));
}

}  // namespace

std::unique_ptr<StoreWriter> create_idx(const WriterOptions& options) {
  expect_type(options, {FieldType::uint8});
  expect_paths(options, options.label ? 2 : 1, options.label ? 2 : 1,
               options.label ? "two paths, of images and labels" : "one path");
  if (options.data.shape.size() > 3) {
    throw InvalidArgument(fmt::format("{}: an IDX file's records have at most 3 axes; received [{}]",
                                      options.paths.front(), fmt::join(options.data.shape, ", ")));
  }
  return std::make_unique<IdxWriter>(options);
}

std::unique_ptr<StoreWriter> create_cifar10(const WriterOptions& options) {
  expect_cifar10(options);
  return std::make_unique<Cifar10Writer>(options);
}

std::unique_ptr<StoreWriter> create_cifar10_python(const WriterOptions& options) {
  expect_cifar10(options);
  return std::make_unique<Cifar10PythonWriter>(options);
}

}  // namespace pleiad::data

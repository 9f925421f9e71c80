// Writers of idx and cifar10: unsigned bytes, record after record.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>
#include <optional>
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
  throw InvalidArgument(fmt::format("{}: record {}: a label of a store of the kind \"{}\" is 0 to {}; received {}",
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

/// The header says how many records follow, so all are kept until then.
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
    // Pictures of one channel are without channels there.
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

}  // namespace

std::unique_ptr<StoreWriter> create_bytes(const WriterOptions& options) {
  expect_type(options, {FieldType::uint8});
  const std::vector<std::int64_t>& shape = options.data.shape;
  if (options.kind == "idx") {
    expect_paths(options, options.label ? 2 : 1, options.label ? 2 : 1,
                 options.label ? "two paths, of images and labels" : "one path");
    if (shape.size() > 3) {
      throw InvalidArgument(fmt::format("{}: an IDX file's records have at most 3 axes; received [{}]",
                                        options.paths.front(), fmt::join(shape, ", ")));
    }
    return std::make_unique<IdxWriter>(options);
  }
  expect_paths(options, 1, 1, "one path");
  if (!options.label || shape != std::vector<std::int64_t>{3, kCifarSide, kCifarSide}) {
    throw InvalidArgument(fmt::format("{}: CIFAR-10's records have labels and the shape [3, 32, 32]; received {}[{}]",
                                      options.paths.front(), options.label ? "" : "no labels, and ",
                                      fmt::join(shape, ", ")));
  }
  return std::make_unique<Cifar10Writer>(options);
}

}  // namespace pleiad::data

// CIFAR-10's binary version: records of a label byte and 3 x 32 x 32 bytes, in one or more files.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/text.h"
#include "data/cifar10.h"
#include "data/content.h"
#include "data/image.h"
#include "data/labels.h"
#include "data/list.h"
#include "pleiad/error.h"

namespace pleiad::data {

namespace {

struct BinaryFile {
  Content content;
  std::int64_t first;  ///< index of its first record in the store
};

class Cifar10 final : public Store {
 public:
  Cifar10(std::string name, std::vector<BinaryFile> parts, std::int64_t size)
      : Store(std::move(name), size, {{.name = "data", .type = FieldType::uint8, .shape = {3, 32, 32}}, label_field()}),
        parts_(std::move(parts)) {}

 private:
  void fetch(std::size_t field, std::span<const std::int64_t> records, const Window* window,
             std::byte* out) const override {
    for (const std::int64_t record : records) {
      const auto after = std::ranges::upper_bound(parts_, record, {}, &BinaryFile::first);
      const BinaryFile& part = *std::prev(after);
      const std::int64_t inside = record - part.first;
      const std::byte* at = part.content.bytes().data() + static_cast<std::size_t>(inside) * kCifarRecord;
      const auto label = static_cast<std::int32_t>(*at);
      // Also checked when only the image is read: an image with an invalid label is a damaged record.
      check_label(label, kCifarClasses, part.content.path().string(), inside);
      if (field == 0) {
        out = copy_record(fields()[0], at + 1, window, out);
      } else {
        std::memcpy(out, &label, sizeof label);
        out += sizeof label;
      }
    }
  }

  std::vector<BinaryFile> parts_;
};

}  // namespace

std::unique_ptr<Store> open_cifar10(const StoreOptions& options) {
  std::vector<BinaryFile> parts;
  std::int64_t size = 0;
  for (const std::string& path : options.paths) {
    Content content(path);
    const std::size_t bytes = content.bytes().size();
    if (bytes == 0 || bytes % kCifarRecord != 0) {
      throw FileError(fmt::format("{}: expected records of {} bytes; its {} bytes end in record {}", path,
                                  grouped(kCifarRecord), grouped(static_cast<std::int64_t>(bytes)),
                                  grouped(static_cast<std::int64_t>(bytes / kCifarRecord))));
    }
    parts.push_back({.content = std::move(content), .first = size});
    size += static_cast<std::int64_t>(bytes / kCifarRecord);
  }
  return windowed(std::make_unique<Cifar10>(join(options.paths), std::move(parts), size), options.window);
}

}  // namespace pleiad::data

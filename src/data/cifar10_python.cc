// CIFAR's Python version: pickled batches, each a dict with "data", an array of bytes, and "labels" (in CIFAR-100
// "fine_labels").
#include <fmt/format.h>

#include "core/text.h"
#include "data/arrays.h"
#include "data/cifar10.h"
#include "data/content.h"
#include "data/image.h"
#include "data/labels.h"
#include "data/list.h"
#include "data/pickle.h"
#include "pleiad/error.h"

namespace pleiad::data {

namespace {

using Kind = PickleValue::Kind;
constexpr std::int64_t kImage = 3 * kCifarPixels;
constexpr std::int64_t kFineClasses = 100;

bool names(const PickleValue& global, std::string_view name) {
  return global.kind == Kind::global && global.text.starts_with("numpy") && global.text.ends_with(name);
}

const PickleValue* item(const PickleValue* value, std::size_t index) {
  const bool has = value != nullptr && (value->kind == Kind::tuple || value->kind == Kind::list);
  return has && index < value->items.size() ? value->items[index] : nullptr;
}

bool is_bytes(const PickleValue* dtype) {
  if (dtype == nullptr || dtype->kind != Kind::object || !names(*dtype->items[0], " dtype")) return false;
  const PickleValue* const code = item(dtype->items[1], 0);
  return code != nullptr && (code->text == "u1" || code->text == "|u1");
}

/// An array of unsigned bytes as NumPy pickles it. NumPy stores its parts as the state of an object or, in protocol 5,
/// as the arguments of a call.
struct ByteArray {
  std::span<const std::byte> bytes;
  std::int64_t rows = 0;
};

class PickledBatch {
 public:
  explicit PickledBatch(const std::string& path) : path_(path), content_(path), pickle_(content_.bytes(), path) {}

  void append(std::vector<std::byte>& images, std::vector<std::byte>& labels, std::int64_t classes) {
    const PickleValue* const data = pickle_.root().find("data");
    if (data == nullptr) fail("expected a dict with \"data\" and \"labels\"");
    const ByteArray array = array_of(*data);
    const PickleValue* list = pickle_.root().find("labels");
    if (list == nullptr) {
      list = pickle_.root().find("fine_labels");
      classes = kFineClasses;
    }
    if (list == nullptr || list->kind != Kind::list) fail("expected \"labels\", a list");
    if (static_cast<std::int64_t>(list->items.size()) != array.rows) {
      fail(fmt::format("has {} images and {} labels", grouped(array.rows),
                       grouped(static_cast<std::int64_t>(list->items.size()))));
    }
    for (std::size_t i = 0; i < list->items.size(); ++i) {
      const auto record = static_cast<std::int64_t>(i);
      if (list->items[i]->kind != Kind::integer)
        fail(fmt::format("record {}: its label is not a number", grouped(record)));
      check_label(list->items[i]->integer, classes, path_, record);
      const auto label = static_cast<std::int32_t>(list->items[i]->integer);
      const auto bytes = std::as_bytes(std::span(&label, 1));
      labels.insert(labels.end(), bytes.begin(), bytes.end());
    }
    images.insert(images.end(), array.bytes.begin(), array.bytes.end());
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw FileError(fmt::format("{}: {}", path_, what)); }

  ByteArray array_of(const PickleValue& value) {
    const PickleValue* shape = nullptr;
    const PickleValue* type = nullptr;
    const PickleValue* bytes = nullptr;
    bool by_column = false;
    if (value.kind == Kind::object && names(*value.items[0], " _reconstruct")) {
      shape = item(value.state, 1);
      type = item(value.state, 2);
      by_column = item(value.state, 3) != nullptr && item(value.state, 3)->integer != 0;
      bytes = item(value.state, 4);
    } else if (value.kind == Kind::object && names(*value.items[0], " _frombuffer")) {
      bytes = item(value.items[1], 0);
      type = item(value.items[1], 1);
      shape = item(value.items[1], 2);
      by_column = item(value.items[1], 3) != nullptr && item(value.items[1], 3)->text == "F";
    }
    if (bytes == nullptr || !is_bytes(type)) fail("expected \"data\" to be a NumPy array of uint8");
    const PickleValue* const rows = item(shape, 0);
    const PickleValue* const columns = item(shape, 1);
    if (rows == nullptr || columns == nullptr || columns->integer != kImage || rows->integer < 1 || by_column) {
      fail(fmt::format("expected \"data\" of the shape (images, {}), row by row", kImage));
    }
    const std::span<const std::byte> numbers = pickle_.bytes_of(*bytes);
    const auto there = static_cast<std::int64_t>(numbers.size());
    if (there / kImage != rows->integer || there % kImage != 0) {
      fail(fmt::format("is truncated or damaged in record {}: expected {} images, found {} bytes",
                       grouped(there / kImage), rows->integer, grouped(there)));
    }
    return {.bytes = numbers, .rows = rows->integer};
  }

  std::string path_;
  Content content_;
  Pickle pickle_;
};

}  // namespace

std::unique_ptr<Store> open_cifar10_python(const StoreOptions& options) {
  std::vector<std::byte> images;
  std::vector<std::byte> labels;
  for (const std::string& path : options.paths) {
    PickledBatch(path).append(images, labels, options.classes > 0 ? options.classes : kCifarClasses);
  }
  std::vector<OwnedField> fields;
  fields.push_back({.field = {.name = "data", .type = FieldType::uint8, .shape = {3, kCifarSide, kCifarSide}},
                    .bytes = std::move(images)});
  fields.push_back({.field = label_field(), .bytes = std::move(labels)});
  return windowed(keep_arrays(join(options.paths), std::move(fields)), options.window);
}

}  // namespace pleiad::data

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/text.h"
#include "file/mapped.h"
#include "pleiad/data.h"
#include "pleiad/error.h"

namespace pleiad {

std::size_t size_of(FieldType type) {
  switch (type) {
    case FieldType::uint8: return 1;
    case FieldType::float32:
    case FieldType::int32: return 4;
    case FieldType::float64:
    case FieldType::int64: return 8;
  }
  throw InvalidArgument(fmt::format("unknown field type {}", static_cast<int>(type)));
}

std::string_view name_of(FieldType type) {
  switch (type) {
    case FieldType::uint8: return "uint8";
    case FieldType::float32: return "float32";
    case FieldType::float64: return "float64";
    case FieldType::int32: return "int32";
    case FieldType::int64: return "int64";
  }
  return "?";
}

std::int64_t Field::count() const {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) product *= extent;
  return product;
}

std::size_t Field::bytes() const { return static_cast<std::size_t>(count()) * size_of(type); }

Store::Store(std::string name, std::int64_t size, std::vector<Field> fields)
    : name_(std::move(name)), size_(size), fields_(std::move(fields)) {}

Store::~Store() = default;

std::size_t Store::field(std::string_view name) const {
  const auto found = std::ranges::find(fields_, name, &Field::name);
  if (found != fields_.end()) return static_cast<std::size_t>(found - fields_.begin());
  std::vector<std::string> known;
  for (const Field& field : fields_) known.push_back(field.name);
  throw InvalidArgument(fmt::format("{}: {}", name_, unknown_name("field", name, known)));
}

void Store::check(std::size_t field, std::span<const std::int64_t> records, const Window* window,
                  std::size_t room) const {
  if (field >= fields_.size()) {
    throw InvalidArgument(fmt::format("{}: has {} fields; received the index {}", name_, fields_.size(), field));
  }
  const Field& wanted = fields_[field];
  std::size_t each = wanted.bytes();
  if (window != nullptr) {
    if (wanted.shape.size() != 3) {
      throw InvalidArgument(fmt::format("{}: field \"{}\" has the shape [{}]; a window needs [channels, height, width]",
                                        name_, wanted.name, fmt::join(wanted.shape, ", ")));
    }
    const bool inside = window->top >= 0 && window->left >= 0 && window->height >= 0 && window->width >= 0 &&
                        window->top <= wanted.shape[1] && window->height <= wanted.shape[1] - window->top &&
                        window->left <= wanted.shape[2] && window->width <= wanted.shape[2] - window->left;
    if (!inside) {
      throw InvalidArgument(fmt::format(
          "{}: field \"{}\" has images of {} x {}; received a window of {} x {} at {}, {}", name_, wanted.name,
          wanted.shape[1], wanted.shape[2], window->height, window->width, window->top, window->left));
    }
    each = static_cast<std::size_t>(wanted.shape[0] * window->height * window->width) * size_of(wanted.type);
  }
  for (const std::int64_t record : records) {
    if (record < 0 || record >= size_) {
      throw InvalidArgument(fmt::format("{}: has records 0 to {}; received {}", name_, size_ - 1, record));
    }
  }
  if (room != each * records.size()) {
    throw InvalidArgument(fmt::format("{}: {} records of field \"{}\" are {} bytes; received room for {}", name_,
                                      records.size(), wanted.name, each * records.size(), room));
  }
}

void Store::read(std::size_t field, std::span<const std::int64_t> records, std::span<std::byte> out) const {
  check(field, records, nullptr, out.size());
  if (!out.empty()) checked_read([&] { fetch(field, records, nullptr, out.data()); });
}

void Store::read_window(std::size_t field, std::span<const std::int64_t> records, const Window& window,
                        std::span<std::byte> out) const {
  check(field, records, &window, out.size());
  if (!out.empty()) checked_read([&] { fetch(field, records, &window, out.data()); });
}

}  // namespace pleiad

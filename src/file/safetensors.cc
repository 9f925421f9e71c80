#include "file/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/text.h"
#include "file/atomic.h"
#include "file/json_text.h"
#include "pleiad/error.h"

namespace pleiad {

static_assert(std::endian::native == std::endian::little,
              "arrays are read in place, so the machine must be little-endian");

using nlohmann::json;

namespace {

constexpr std::size_t kSizeBytes = 8;
// The reference implementation allows 100,000,000 bytes, which need more than 2 GB when they are parsed.
constexpr std::uint64_t kMaxHeader = 10'000'000;
constexpr const char* kMetadataKey = "__metadata__";
constexpr std::size_t kDataAlignment = 64;

constexpr ElementType kTypes[] = {
    {"BOOL", 8},        {"U8", 8},          {"I8", 8},    {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8},
    {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F4", 4},    {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U16", 16},
    {"I16", 16},        {"F16", 16},        {"BF16", 16}, {"U32", 32},    {"I32", 32},    {"F32", 32},
    {"U64", 64},        {"I64", 64},        {"F64", 64},  {"C64", 64},
};

}  // namespace

std::span<const ElementType> element_types() { return kTypes; }

ElementType element_type(std::string_view name, const std::string& where) {
  const auto* found = std::ranges::find(kTypes, name, &ElementType::name);
  if (found != std::end(kTypes)) return *found;
  std::vector<std::string> known;
  for (const ElementType& type : kTypes) known.emplace_back(type.name);
  throw FileError(fmt::format("{}: {}", where, unknown_name("element type", name.substr(0, 40), known)));
}

ElementType element_type(DType type) {
  switch (type) {
    case DType::float32: return element_type("F32", "");
    case DType::float64: return element_type("F64", "");
    case DType::int32: return element_type("I32", "");
    case DType::int64: return element_type("I64", "");
  }
  throw InternalError("an element type without a name in the safetensors format");
}

std::optional<DType> dtype_of_name(std::string_view name) {
  for (const DType type : kDTypes) {
    if (element_type(type).name == name) return type;
  }
  return std::nullopt;
}

std::optional<std::int64_t> array_bytes(ElementType type, std::span<const std::int64_t> shape) {
  // An extent of 0 must not hide an overflow of the other extents.
  std::int64_t bits = type.bits;
  bool empty = false;
  for (const std::int64_t extent : shape) {
    empty = empty || extent == 0;
    if (extent != 0 && __builtin_mul_overflow(bits, extent, &bits)) return std::nullopt;
  }
  if (empty) return 0;
  if (bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

Safetensors::Safetensors(const std::filesystem::path& path) : path_(path), file_(path) {
  checked_read([&] { read(file_.bytes()); });
}

Safetensors::Safetensors(std::span<const std::byte> content, std::filesystem::path path) : path_(std::move(path)) {
  read(content);
}

void Safetensors::read(std::span<const std::byte> bytes) {
  const auto fail = [&](const std::string& what) { throw FileError(fmt::format("{}: {}", path_.string(), what)); };
  if (bytes.size() < kSizeBytes) {
    fail(fmt::format("is not a safetensors file: expected at least {} bytes, received {}", kSizeBytes, bytes.size()));
  }
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), kSizeBytes);
  if (header > kMaxHeader) {
    fail(fmt::format("is not a safetensors file: its header has {} bytes; at most {} are allowed", header,
                     grouped(kMaxHeader)));
  }
  if (header > bytes.size() - kSizeBytes) {
    fail(fmt::format("is truncated: its header has {} bytes, but only {} follow", header, bytes.size() - kSizeBytes));
  }
  read_header({reinterpret_cast<const char*>(bytes.data()) + kSizeBytes, header}, bytes.subspan(kSizeBytes + header));
}

namespace {

/// Reads the entry of one array. Its two offsets select its bytes in `data`.
ArrayEntry read_entry(const std::string& name, const json& value, std::span<const std::byte> data,
                      const std::string& where) {
  const ElementType type = element_type(text_value(member(value, "dtype", where), where + ": dtype"), where);
  const json& shape = member(value, "shape", where);
  if (!shape.is_array()) throw FileError(where + ": shape: expected a list");
  ArrayEntry entry{.name = name, .type = type, .shape = {}, .bytes = {}};
  for (const json& extent : shape) entry.shape.push_back(whole_number(extent, where + ": shape"));
  const json& offsets = member(value, "data_offsets", where);
  if (!offsets.is_array() || offsets.size() != 2) throw FileError(where + ": data_offsets: expected two numbers");
  const std::int64_t begin = whole_number(offsets[0], where + ": data_offsets");
  const std::int64_t end = whole_number(offsets[1], where + ": data_offsets");
  if (begin > end) throw FileError(fmt::format("{}: begins at {} and ends at {}", where, begin, end));
  if (static_cast<std::size_t>(end) > data.size()) {
    throw FileError(fmt::format("{}: the file is truncated: the array ends at byte {}, the file has {} bytes of data",
                                where, end, data.size()));
  }
  const auto expected = array_bytes(type, entry.shape);
  if (!expected) {
    throw FileError(fmt::format("{}: {} of shape [{}] does not have a valid size in bytes", where, type.name,
                                fmt::join(entry.shape, ", ")));
  }
  if (*expected != end - begin) {
    throw FileError(fmt::format("{}: {} of shape [{}] needs {} bytes, its offsets give {}", where, type.name,
                                fmt::join(entry.shape, ", "), *expected, end - begin));
  }
  entry.bytes = data.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
  return entry;
}

}  // namespace

void Safetensors::read_header(std::string_view header, std::span<const std::byte> data) {
  const std::string where = path().string();
  if (!header.starts_with('{')) throw FileError(where + ": is not a safetensors file: its header is not a JSON object");
  // Arrays are three levels deep: the top object, the entry of an array, and its shape.
  const json parsed = parse_json(header, where + ": header", 3);
  for (const auto& [name, value] : parsed.items()) {
    if (name == kMetadataKey) {
      if (!value.is_object()) throw FileError(fmt::format("{}: {}: expected an object", where, kMetadataKey));
      for (const auto& [key, text] : value.items()) {
        metadata_[key] = text_value(text, fmt::format("{}: {}: \"{}\"", where, kMetadataKey, printable(key)));
      }
    } else {
      arrays_.push_back(read_entry(name, value, data, fmt::format("{}: array \"{}\"", where, printable(name))));
    }
  }
  // An empty array is sorted before one that begins at the same byte.
  std::ranges::sort(arrays_, [](const ArrayEntry& a, const ArrayEntry& b) {
    return std::pair(a.bytes.data(), a.bytes.size()) < std::pair(b.bytes.data(), b.bytes.size());
  });
  for (std::size_t i = 0; i < arrays_.size(); ++i) positions_.emplace(arrays_[i].name, i);
  const std::byte* at = data.data();
  for (const ArrayEntry& array : arrays_) {
    if (array.bytes.data() != at) {
      throw FileError(fmt::format("{}: array \"{}\": {} the previous array by {} bytes", where, printable(array.name),
                                  array.bytes.data() < at ? "overlaps" : "is separated from",
                                  std::abs(array.bytes.data() - at)));
    }
    at += array.bytes.size();
  }
  if (const auto left = data.data() + data.size() - at; left != 0) {
    throw FileError(fmt::format("{}: {} bytes at the end belong to no array", where, left));
  }
}

bool Safetensors::has(std::string_view name) const { return positions_.contains(name); }

const ArrayEntry& Safetensors::at(std::string_view name) const {
  const auto found = positions_.find(name);
  if (found != positions_.end()) return arrays_[found->second];
  std::vector<std::string> known;
  for (const ArrayEntry& array : arrays_) known.push_back(array.name);
  throw FileError(fmt::format("{}: {}", path().string(), unknown_name("array", name, known)));
}

ConstView Safetensors::view(std::string_view name) const {
  const ArrayEntry& array = at(name);
  const auto type = dtype_of_name(array.type.name);
  if (!type) {
    throw FileError(fmt::format("{}: array \"{}\" has the element type {}; expected F32, F64, I32 or I64",
                                path().string(), name, array.type.name));
  }
  if (reinterpret_cast<std::uintptr_t>(array.bytes.data()) % size_of(*type) != 0 && !array.bytes.empty()) {
    throw FileError(fmt::format("{}: array \"{}\" is not aligned to {} bytes; copy it instead", path().string(), name,
                                size_of(*type)));
  }
  return {array.bytes.data(), static_cast<std::int64_t>(array.bytes.size() / size_of(*type)), *type};
}

WrittenFile write_safetensors(const std::filesystem::path& path, std::span<const ArrayToWrite> arrays,
                              const Metadata& metadata) {
  std::vector<const ArrayToWrite*> order;
  for (const ArrayToWrite& array : arrays) {
    const auto expected = array_bytes(array.type, array.shape);
    if (!expected || *expected != static_cast<std::int64_t>(array.bytes.size())) {
      throw InvalidArgument(
          fmt::format("[write_safetensors] {}: array \"{}\": {} of shape [{}] needs {} bytes; received {}",
                      path.string(), array.name, array.type.name, fmt::join(array.shape, ", "),
                      expected ? std::to_string(*expected) : "an invalid number of", array.bytes.size()));
    }
    order.push_back(&array);
  }
  std::ranges::stable_sort(order, [](const ArrayToWrite* a, const ArrayToWrite* b) {
    return std::pair(-a->type.bits, std::string_view(a->name)) < std::pair(-b->type.bits, std::string_view(b->name));
  });
  json header = json::object();
  if (!metadata.empty()) header[kMetadataKey] = metadata;
  std::size_t at = 0;
  for (const ArrayToWrite* array : order) {
    if (array->name == kMetadataKey || header.contains(array->name)) {
      throw InvalidArgument(fmt::format("[write_safetensors] {}: the name \"{}\" is {}", path.string(), array->name,
                                        array->name == kMetadataKey ? "reserved by the format" : "given twice"));
    }
    header[array->name] = {
        {"dtype", array->type.name}, {"shape", array->shape}, {"data_offsets", {at, at + array->bytes.size()}}};
    at += array->bytes.size();
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const json::exception&) {
    throw InvalidArgument(fmt::format("[write_safetensors] {}: a name or the metadata is not UTF-8", path.string()));
  }
  text.resize((text.size() + kSizeBytes + kDataAlignment - 1) / kDataAlignment * kDataAlignment - kSizeBytes, ' ');
  if (text.size() > kMaxHeader) {
    throw InvalidArgument(fmt::format("[write_safetensors] {}: the header would have {} bytes, at most {} are allowed",
                                      path.string(), text.size(), grouped(kMaxHeader)));
  }
  AtomicFile file(path, Caching::pass);
  const std::uint64_t size = text.size();
  file.write(std::as_bytes(std::span(&size, 1)));
  file.write(text);
  for (const ArrayToWrite* array : order) file.write(array->bytes);
  file.commit();
  return {.bytes = static_cast<std::int64_t>(file.bytes()), .crc32c = file.checksum()};
}

}  // namespace pleiad

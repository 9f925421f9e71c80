#include "inspect_singa.h"

#include <cstring>

#include "data/protobuf_fields.h"
#include "file/mapped.h"

namespace pleiad::cli {
namespace {

using data::ProtobufReader;
using data::ProtobufType;

/// Reads packed integers, or a single one.
bool take_numbers(const ProtobufReader& field, std::vector<std::int64_t>& to) {
  if (field.type() == ProtobufType::varint) {
    to.push_back(static_cast<std::int64_t>(field.number()));
    return true;
  }
  if (field.type() != ProtobufType::bytes) return false;
  ProtobufReader packed(field.bytes());
  while (!packed.empty()) {
    const auto number = packed.take_varint();
    if (!number) return false;
    to.push_back(static_cast<std::int64_t>(*number));
  }
  return true;
}

/// Reads a message BlobProto {shape = 1, data = 2}.
bool take_blob(std::span<const std::byte> bytes, SingaParameter& to) {
  ProtobufReader fields(bytes);
  while (fields.next()) {
    if (fields.field() == 1) {
      if (!take_numbers(fields, to.shape)) return false;
    } else if (fields.field() == 2) {
      if (fields.type() == ProtobufType::varint || fields.bytes().size() % sizeof(float) != 0) return false;
      const std::size_t before = to.values.size();
      to.values.resize(before + fields.bytes().size() / sizeof(float));
      if (!fields.bytes().empty()) std::memcpy(to.values.data() + before, fields.bytes().data(), fields.bytes().size());
    }
  }
  return !fields.failed();
}

}  // namespace

std::optional<std::vector<SingaParameter>> read_singa_checkpoint(const std::filesystem::path& path) {
  const MappedFile file(path);
  std::vector<SingaParameter> all;
  std::vector<std::int64_t> versions;
  std::vector<std::string> names;
  std::vector<std::int64_t> ignored;
  ProtobufReader fields(file.bytes());
  while (fields.next()) {  // BlobProtos {id = 2, version = 3, name = 4, blob = 5}
    const bool bytes = fields.type() == ProtobufType::bytes;
    switch (fields.field()) {
      case 2:
        if (!take_numbers(fields, ignored)) return {};
        break;
      case 3:
        if (!take_numbers(fields, versions)) return {};
        break;
      case 4:
        if (!bytes) return {};
        names.emplace_back(reinterpret_cast<const char*>(fields.bytes().data()), fields.bytes().size());
        break;
      case 5:
        if (!bytes || !take_blob(fields.bytes(), all.emplace_back())) return {};
        break;
      default: return {};
    }
  }
  if (fields.failed() || all.empty() || names.size() != all.size()) return {};
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].name = names[i];
    all[i].version = i < versions.size() ? versions[i] : 0;
  }
  return all;
}

}  // namespace pleiad::cli

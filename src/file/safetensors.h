// Files of named arrays in the safetensors format: eight bytes with the header's size, a JSON header, the arrays'
// bytes, little-endian and row-major. What is written here the Python package reads, and the other way round.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "file/mapped.h"
#include "pleiad/dtype.h"
#include "pleiad/view.h"

namespace pleiad {

/// An element type by the format's name for it. Those that DType lacks are bytes to us, carried as they are.
struct ElementType {
  std::string_view name;  ///< "F32"
  int bits = 0;
};

/// All that the format knows.
[[nodiscard]] std::span<const ElementType> element_types();
/// A FileError that begins with `where` for a name that the format does not know.
[[nodiscard]] ElementType element_type(std::string_view name, const std::string& where);
[[nodiscard]] ElementType element_type(DType type);
[[nodiscard]] std::optional<DType> dtype_of_name(std::string_view name);

/// Bytes of an array; nothing where they are no whole number of bytes or do not fit 63 bits. Extents are >= 0.
[[nodiscard]] std::optional<std::int64_t> array_bytes(ElementType type, std::span<const std::int64_t> shape);

using Metadata = std::map<std::string, std::string>;

struct ArrayEntry {
  std::string name;
  ElementType type;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;  ///< in the mapped file
};

/// A file opened for reading, mapped and checked in whole: header size, JSON, types, shapes, and that the arrays' bytes
/// lie one after another to the end of the file, without overlap or gap. Any thread may read. What `arrays` and `view`
/// give lives as long as this.
///
/// A failure is a FileError that names the file and, where it is about one, the array.
class Safetensors {
 public:
  explicit Safetensors(const std::filesystem::path& path);
  /// A file's content in memory that the caller keeps; messages call it `path`.
  Safetensors(std::span<const std::byte> content, std::filesystem::path path);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] const Metadata& metadata() const { return metadata_; }
  /// In the order of their bytes.
  [[nodiscard]] std::span<const ArrayEntry> arrays() const { return arrays_; }
  [[nodiscard]] bool has(std::string_view name) const;
  /// Names the arrays that there are if this is none.
  [[nodiscard]] const ArrayEntry& at(std::string_view name) const;
  /// The numbers where they lie. The array must have one of DType's types and lie at a multiple of its elements' size,
  /// which the format does not promise (what we write does); `at(name).bytes` can be copied in any case.
  [[nodiscard]] ConstView view(std::string_view name) const;

 private:
  void read(std::span<const std::byte> content);
  void read_header(std::string_view header, std::span<const std::byte> data);

  std::filesystem::path path_;
  MappedFile file_;
  Metadata metadata_;
  std::vector<ArrayEntry> arrays_;
};

struct ArrayToWrite {
  std::string name;
  ElementType type;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

struct WrittenFile {
  std::int64_t bytes = 0;
  std::uint32_t crc32c = 0;
};

/// Writes a file that takes its place when it is complete (AtomicFile). The data begins at a multiple of 64 bytes, wide
/// elements first, so that every array can be used where it lies. An InvalidArgument for a name that comes twice or is
/// no UTF-8, or bytes that do not fit the shape; a FileError where the disk refuses.
WrittenFile write_safetensors(const std::filesystem::path& path, std::span<const ArrayToWrite> arrays,
                              const Metadata& metadata = {});

}  // namespace pleiad

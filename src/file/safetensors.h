// Files of named arrays in the safetensors format: eight bytes with the size of the header, a JSON header, and the
// bytes of the arrays, little-endian and row-major. Compatible with the Python package in both directions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
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

/// An element type by its name in the format. Types that DType lacks are copied as bytes.
struct ElementType {
  std::string_view name;  ///< such as "F32"
  int bits = 0;
};

/// All element types of the format.
[[nodiscard]] std::span<const ElementType> element_types();
/// Throws FileError, whose message begins with `where`, if the format has no type of this name.
[[nodiscard]] ElementType element_type(std::string_view name, const std::string& where);
[[nodiscard]] ElementType element_type(DType type);
[[nodiscard]] std::optional<DType> dtype_of_name(std::string_view name);

/// Returns the size of an array in bytes; nullopt if it is not a whole number of bytes or exceeds 63 bits. Extents must
/// not be negative.
[[nodiscard]] std::optional<std::int64_t> array_bytes(ElementType type, std::span<const std::int64_t> shape);

using Metadata = std::map<std::string, std::string>;

struct ArrayEntry {
  std::string name;
  ElementType type;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;  ///< points into the mapped file
};

/// A file opened for reading. The constructor maps it and checks all of it: header size, JSON, types, shapes, and that
/// the bytes of the arrays follow each other to the end of the file without overlap or gap. Thread-safe. The results of
/// `arrays` and `view` are valid as long as this object.
///
/// Throws FileError with the file and, if the error is about one, the array.
class Safetensors {
 public:
  explicit Safetensors(const std::filesystem::path& path);
  /// Reads a file's content from memory that the caller keeps valid. Error messages call it `path`.
  Safetensors(std::span<const std::byte> content, std::filesystem::path path);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] const Metadata& metadata() const { return metadata_; }
  /// Sorted by the position of their bytes.
  [[nodiscard]] std::span<const ArrayEntry> arrays() const { return arrays_; }
  [[nodiscard]] bool has(std::string_view name) const;
  /// Throws FileError with the existing names if there is no such array.
  [[nodiscard]] const ArrayEntry& at(std::string_view name) const;
  /// Returns the elements in place. The array must have one of DType's types and be aligned to its element size, which
  /// the format does not guarantee (files written here are aligned). `at(name).bytes` can be copied in any case.
  [[nodiscard]] ConstView view(std::string_view name) const;

 private:
  void read(std::span<const std::byte> content);
  void read_header(std::string_view header, std::span<const std::byte> data);

  std::filesystem::path path_;
  MappedFile file_;
  Metadata metadata_;
  std::vector<ArrayEntry> arrays_;
  std::map<std::string, std::size_t, std::less<>> positions_;  ///< in arrays_, by name
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

/// Writes a file atomically (AtomicFile). The data begins at a multiple of 64 bytes, widest elements first, so that
/// every array can be used in place. Throws InvalidArgument if a name is duplicate or not UTF-8, or if the bytes do not
/// match the shape; throws FileError if writing fails.
WrittenFile write_safetensors(const std::filesystem::path& path, std::span<const ArrayToWrite> arrays,
                              const Metadata& metadata = {});

}  // namespace pleiad

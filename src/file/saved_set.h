// Arrays that n processes saved together and m processes load, each as much as it needs.
//
// Saving: every process calls write_part for what it owns; when all have returned, one of them collects the entries and
// commits a Manifest. Until that commit, and if anything fails before it, the set that was there stays whole, provided
// that `tag` differs from the last one's.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "file/manifest.h"
#include "file/safetensors.h"

namespace pleiad {

/// A rectangle of an array that this process owns.
struct PieceToWrite {
  std::string array;
  ElementType type;
  std::vector<std::int64_t> shape;  ///< of the whole array
  Box box;
  std::span<const std::byte> bytes;  ///< the rectangle's elements, row-major
};

/// The name of a part: TAG-INDEX.safetensors, the index in five digits.
[[nodiscard]] std::string part_file(const std::string& tag, int index);

/// Writes FOLDER/part_file(tag, index), in one step and through to the disk. The folder must exist.
[[nodiscard]] PartEntry write_part(const std::filesystem::path& folder, const std::string& tag, int index,
                                   std::span<const PieceToWrite> pieces, const Metadata& metadata = {});

/// A saved set, for reading. Any thread may call any method.
///
/// A failure is a FileError that names the file and, where it is about one, the array. A part's size and checksum are
/// compared with the manifest's when it is first needed.
class SavedSet {
 public:
  explicit SavedSet(const std::filesystem::path& folder);

  struct Array {
    ElementType type;
    std::vector<std::int64_t> shape;
  };

  [[nodiscard]] const Manifest& manifest() const { return manifest_; }
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] bool has(std::string_view name) const { return arrays_.contains(name); }
  /// Names the known arrays if this is none.
  [[nodiscard]] const Array& at(std::string_view name) const;
  /// Fills `out` with a rectangle of an array, whichever parts it lies in. Types of less than a byte an element only in
  /// whole, from one piece.
  void read(std::string_view name, const Box& box, std::span<std::byte> out) const;
  /// All of it.
  void read(std::string_view name, std::span<std::byte> out) const;
  /// Reads every part and compares its checksum.
  void verify() const;

 private:
  const Safetensors& part(std::size_t index) const;

  std::filesystem::path folder_;
  Manifest manifest_;
  std::map<std::string, Array, std::less<>> arrays_;

  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Safetensors>> parts_;  ///< by mutex_; null until needed
};

}  // namespace pleiad

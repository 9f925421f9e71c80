// Arrays that n processes save together and m processes load, each only the regions that it needs.
//
// To save, every process calls write_part for the regions that it owns. When all calls have returned, one process
// collects the entries and commits a Manifest. Until that commit, and after any failure before it, the previous set
// stays intact, provided that `tag` differs from the previous one's.
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

/// A region of an array that this process owns.
struct PieceToWrite {
  std::string array;
  ElementType type;
  std::vector<std::int64_t> shape;  ///< of the whole array
  Box box;
  std::span<const std::byte> bytes;  ///< the elements of the region, row-major
};

/// Returns the name of a part: TAG-INDEX.safetensors, with a five-digit index.
[[nodiscard]] std::string part_file(const std::string& tag, int index);

/// Writes FOLDER/part_file(tag, index) atomically and flushes it to disk. The folder must exist.
[[nodiscard]] PartEntry write_part(const std::filesystem::path& folder, const std::string& tag, int index,
                                   std::span<const PieceToWrite> pieces, const Metadata& metadata = {});

/// A saved set, for reading. Thread-safe.
///
/// Throws FileError with the file and, if the error is about one, the array. The size and checksum of a part are
/// compared with the manifest's when the part is first needed.
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
  /// Throws FileError with the known names if there is no such array.
  [[nodiscard]] const Array& at(std::string_view name) const;
  /// Fills `out` with a region of an array, from all parts that contain it. Arrays with elements of less than a byte
  /// can only be read whole, from a single piece.
  void read(std::string_view name, const Box& box, std::span<std::byte> out) const;
  /// Reads the whole array.
  void read(std::string_view name, std::span<std::byte> out) const;
  /// Reads every part and compares its checksum.
  void verify() const;

 private:
  struct PiecePosition {
    std::size_t part = 0;
    std::size_t piece = 0;  ///< in the part
  };

  const Safetensors& part(std::size_t index) const;

  std::filesystem::path folder_;
  Manifest manifest_;
  std::map<std::string, Array, std::less<>> arrays_;
  std::map<std::string, std::vector<PiecePosition>, std::less<>> pieces_;  ///< of each array

  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Safetensors>> parts_;  ///< guarded by mutex_; null until needed
};

}  // namespace pleiad

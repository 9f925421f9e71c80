// The content of a saved set: the files that n processes wrote, with their checksums, and the region of each array that
// each file holds. A set is a folder with a manifest.json; without that file the set does not exist.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "file/safetensors.h"

namespace pleiad {

/// A region of an array of any rank: extent[d] elements from begin[d] on.
struct Box {
  std::vector<std::int64_t> begin;
  std::vector<std::int64_t> extent;

  [[nodiscard]] static Box whole(std::span<const std::int64_t> shape);
  [[nodiscard]] std::int64_t count() const;
  /// Returns the intersection with a box of the same rank; its count() is 0 if it is empty.
  [[nodiscard]] Box common(const Box& other) const;
  bool operator==(const Box&) const = default;
};

/// The location of a region of an array: in the part's file, under the name `key`.
struct PieceEntry {
  std::string array;
  std::string key;
  ElementType type;
  std::vector<std::int64_t> shape;  ///< of the whole array
  Box box;
};

/// The file that one process wrote.
struct PartEntry {
  std::string file;  ///< a file name in the manifest's folder
  WrittenFile written;
  std::vector<PieceEntry> pieces;

  /// Returns one line of text, to be sent to the process that writes the manifest.
  [[nodiscard]] std::string to_text() const;
  [[nodiscard]] static PartEntry from_text(std::string_view text, const std::string& where);
};

struct Manifest {
  static constexpr std::int64_t kVersion = 1;
  static constexpr const char* kFile = "manifest.json";

  std::string kind;  ///< the purpose of the set: "snapshot" or "checkpoint"
  Metadata metadata;
  std::vector<PartEntry> parts;

  /// Reads FOLDER/manifest.json. Throws FileError with the path if the file is missing, damaged (it has a checksum of
  /// its own) or of a later version, or if the pieces of an array leave a gap, overlap, or differ in type or shape.
  [[nodiscard]] static Manifest read(const std::filesystem::path& folder);
  /// Writes FOLDER/manifest.json atomically, which makes the set valid. Checks the same as `read` first and throws
  /// InvalidArgument. Removes the files of the previous set and the remains of killed saves, so no process may be
  /// writing parts meanwhile.
  void commit(const std::filesystem::path& folder) const;
};

}  // namespace pleiad

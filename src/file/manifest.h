// What a saved set consists of: the files, with their checksums, that n processes wrote, and which rectangle of which
// array each of them holds. A set is a folder with a manifest.json; without it, the set is not there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "file/safetensors.h"

namespace pleiad {

/// A rectangle of an array of any rank: extent[d] elements from begin[d] on.
struct Box {
  std::vector<std::int64_t> begin;
  std::vector<std::int64_t> extent;

  [[nodiscard]] static Box whole(std::span<const std::int64_t> shape);
  [[nodiscard]] std::int64_t count() const;
  /// What two boxes of equal rank have in common; count() is 0 if nothing.
  [[nodiscard]] Box common(const Box& other) const;
  bool operator==(const Box&) const = default;
};

/// Where a rectangle of an array lies: in the part's file, under the name `key`.
struct PieceEntry {
  std::string array;
  std::string key;
  ElementType type;
  std::vector<std::int64_t> shape;  ///< of the whole array
  Box box;
};

/// What one process wrote.
struct PartEntry {
  std::string file;  ///< a name in the manifest's folder
  WrittenFile written;
  std::vector<PieceEntry> pieces;

  /// One line, to be sent to the process that writes the manifest.
  [[nodiscard]] std::string to_text() const;
  [[nodiscard]] static PartEntry from_text(std::string_view text, const std::string& where);
};

struct Manifest {
  static constexpr std::int64_t kVersion = 1;
  static constexpr const char* kFile = "manifest.json";

  std::string kind;  ///< "snapshot", "checkpoint": what the set is to its reader
  Metadata metadata;
  std::vector<PartEntry> parts;

  /// Reads FOLDER/manifest.json. A FileError that names it where it is missing, damaged (it carries a checksum of its
  /// own), of a later version, or where its pieces leave a gap in an array, overlap, or differ in its type or shape.
  [[nodiscard]] static Manifest read(const std::filesystem::path& folder);
  /// Writes FOLDER/manifest.json in one step; the set is there from then on. Checks what `read` checks first (as an
  /// InvalidArgument). Nobody may be writing parts then: those of the set before this one, and what killed saves have
  /// left, are removed.
  void commit(const std::filesystem::path& folder) const;
};

}  // namespace pleiad

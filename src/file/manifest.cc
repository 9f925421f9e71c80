#include "file/manifest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>

#include "core/text.h"
#include "file/atomic.h"
#include "file/checksum.h"
#include "file/json_text.h"
#include "file/mapped.h"
#include "pleiad/error.h"

namespace pleiad {

using nlohmann::json;
namespace fs = std::filesystem;

Box Box::whole(std::span<const std::int64_t> shape) {
  return {.begin = std::vector<std::int64_t>(shape.size(), 0), .extent = {shape.begin(), shape.end()}};
}

std::int64_t Box::count() const {
  std::int64_t product = 1;
  for (const std::int64_t e : extent) product *= e;
  return product;
}

Box Box::common(const Box& other) const {
  Box result = *this;
  for (std::size_t d = 0; d < begin.size(); ++d) {
    const std::int64_t end = std::min(begin[d] + extent[d], other.begin[d] + other.extent[d]);
    result.begin[d] = std::max(begin[d], other.begin[d]);
    result.extent[d] = std::max<std::int64_t>(0, end - result.begin[d]);
  }
  return result;
}

namespace {

json to_json(const PartEntry& part) {
  json pieces = json::array();
  for (const PieceEntry& piece : part.pieces) {
    pieces.push_back({{"array", piece.array},
                      {"key", piece.key},
                      {"dtype", piece.type.name},
                      {"shape", piece.shape},
                      {"begin", piece.box.begin},
                      {"extent", piece.box.extent}});
  }
  return {{"file", part.file},
          {"bytes", part.written.bytes},
          {"crc32c", fmt::format("{:08x}", part.written.crc32c)},
          {"pieces", pieces}};
}

std::vector<std::int64_t> numbers(const json& value, const std::string& where) {
  if (!value.is_array()) throw FileError(where + ": expected a list");
  std::vector<std::int64_t> result;
  for (const json& number : value) result.push_back(whole_number(number, where));
  return result;
}

std::uint32_t checksum_of(const json& value, const std::string& where) {
  const std::string& text = text_value(value, where);
  std::uint32_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
  if (problem != std::errc() || end != text.data() + text.size() || fmt::format("{:08x}", number) != text) {
    throw FileError(fmt::format("{}: expected eight hexadecimal digits in lower case", where));
  }
  return number;
}

PartEntry part_from(const json& value, const std::string& where) {
  PartEntry part;
  part.file = text_value(member(value, "file", where), where + ": file");
  if (part.file.empty() || part.file == "." || part.file == ".." ||
      part.file.find_first_of("/\\") != std::string::npos || part.file.find('\0') != std::string::npos) {
    throw FileError(
        fmt::format("{}: expected the name of a file in this folder, received \"{}\"", where, printable(part.file)));
  }
  part.written.bytes = whole_number(member(value, "bytes", where), where + ": bytes");
  part.written.crc32c = checksum_of(member(value, "crc32c", where), where + ": crc32c");
  const json& pieces = member(value, "pieces", where);
  if (!pieces.is_array()) throw FileError(where + ": pieces: expected a list");
  for (const json& entry : pieces) {
    PieceEntry piece;
    piece.array = text_value(member(entry, "array", where), where + ": array");
    const std::string at = fmt::format("{}: array \"{}\"", where, printable(piece.array));
    piece.key = text_value(member(entry, "key", at), at + ": key");
    piece.type = element_type(text_value(member(entry, "dtype", at), at + ": dtype"), at);
    piece.shape = numbers(member(entry, "shape", at), at + ": shape");
    piece.box = {.begin = numbers(member(entry, "begin", at), at + ": begin"),
                 .extent = numbers(member(entry, "extent", at), at + ": extent")};
    part.pieces.push_back(std::move(piece));
  }
  return part;
}

/// Returns true for the names that snapshots and checkpoints give to their files, complete or unfinished.
bool is_file_of_a_set(std::string_view name) {
  const bool temporary = name.starts_with('.') && name.ends_with(".tmp");
  if (temporary) name.remove_prefix(1);
  if (temporary && name.starts_with(Manifest::kFile)) return true;
  if (!name.starts_with("part-") && !name.starts_with("state")) return false;
  return temporary || name.ends_with(".safetensors") || name.ends_with(".entry");
}

/// Removes the files of the previous set and the remains of saves that were killed.
void remove_outdated(const fs::path& folder, const std::set<std::string>& before, std::span<const PartEntry> parts) {
  std::vector<fs::path> outdated;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    const bool stays = std::ranges::any_of(parts, [&](const PartEntry& part) { return part.file == name; });
    if (!stays && (before.contains(name) || is_file_of_a_set(name))) outdated.push_back(entry.path());
  }
  for (const fs::path& path : outdated) fs::remove(path, ignored);
}

/// Returns true if two boxes that are not empty overlap.
bool overlap(const Box& a, const Box& b) {
  for (std::size_t d = 0; d < a.begin.size(); ++d) {
    if (a.begin[d] >= b.begin[d] + b.extent[d] || b.begin[d] >= a.begin[d] + a.extent[d]) return false;
  }
  return true;
}

/// Returns the number of pairs of pieces that overlap along an axis, whatever their positions along the others are.
std::size_t pairs_along(std::span<const PieceEntry* const> pieces, std::size_t axis) {
  std::vector<std::int64_t> begins;
  std::vector<std::int64_t> ends;
  for (const PieceEntry* piece : pieces) {
    begins.push_back(piece->box.begin[axis]);
    ends.push_back(piece->box.begin[axis] + piece->box.extent[axis]);
  }
  std::ranges::sort(begins);
  std::ranges::sort(ends);
  std::size_t pairs = 0;
  std::size_t ended = 0;
  for (std::size_t i = 0; i < begins.size(); ++i) {
    while (ends[ended] <= begins[i]) ++ended;
    pairs += i - ended;
  }
  return pairs;
}

/// Returns an error message if two pieces of one array overlap. Compares only pairs that overlap along one axis, the
/// one with the fewest such pairs, and no more than kMostPairs of them, so that a hostile manifest takes little time.
std::optional<std::string> problem_of_pairs(std::vector<const PieceEntry*> pieces) {
  constexpr std::size_t kMostPairs = 5'000'000;
  std::erase_if(pieces, [](const PieceEntry* piece) { return piece->box.count() == 0; });
  if (pieces.size() < 2) return std::nullopt;
  constexpr const char* kOverlap = "two pieces overlap";
  const std::size_t axes = pieces.front()->shape.size();
  if (axes == 0) return kOverlap;  // every piece holds the scalar
  std::size_t axis = 0;
  std::size_t fewest = pairs_along(pieces, 0);
  for (std::size_t d = 1; d < axes; ++d) {
    const std::size_t pairs = pairs_along(pieces, d);
    if (pairs < fewest) std::tie(axis, fewest) = std::tie(d, pairs);
  }
  std::ranges::sort(pieces, {}, [&](const PieceEntry* piece) { return piece->box.begin[axis]; });
  std::size_t compared = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::int64_t end = pieces[i]->box.begin[axis] + pieces[i]->box.extent[axis];
    for (std::size_t j = i + 1; j < pieces.size() && pieces[j]->box.begin[axis] < end; ++j) {
      if (overlap(pieces[i]->box, pieces[j]->box)) return kOverlap;
      if (++compared > kMostPairs) {
        return fmt::format("expected at most {} pairs of pieces that overlap along an axis; {} pieces have more",
                           grouped(kMostPairs), pieces.size());
      }
    }
  }
  return std::nullopt;
}

/// Returns an error message about the pieces as a whole, or nullopt.
std::optional<std::string> problem_of(const Manifest& manifest) {
  std::map<std::string, std::vector<const PieceEntry*>> arrays;
  std::set<std::string> files;
  for (const PartEntry& part : manifest.parts) {
    if (!files.insert(part.file).second) return fmt::format("the file \"{}\" is listed twice", printable(part.file));
    for (const PieceEntry& piece : part.pieces) arrays[piece.array].push_back(&piece);
  }
  for (const auto& [name, pieces] : arrays) {
    const PieceEntry& first = *pieces.front();
    const auto where = [&, &array = name] { return fmt::format("array \"{}\"", printable(array)); };
    if (!array_bytes(first.type, first.shape)) return where() + ": its shape does not have a valid size in bytes";
    const Box all = Box::whole(first.shape);
    std::int64_t covered = 0;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const PieceEntry& piece = *pieces[i];
      if (piece.type.name != first.type.name || piece.shape != first.shape) {
        return fmt::format("{}: one part lists {} of shape [{}], another one {} of shape [{}]", where(),
                           first.type.name, fmt::join(first.shape, ", "), piece.type.name,
                           fmt::join(piece.shape, ", "));
      }
      if (piece.box.begin.size() != piece.shape.size() || piece.box.extent.size() != piece.shape.size()) {
        return where() + ": a piece and the array differ in rank";
      }
      for (std::size_t d = 0; d < piece.shape.size(); ++d) {
        if (piece.box.begin[d] > piece.shape[d] || piece.box.extent[d] > piece.shape[d] - piece.box.begin[d]) {
          return where() + ": a piece reaches beyond the array";
        }
      }
      covered += piece.box.count();
    }
    if (const auto problem = problem_of_pairs(pieces)) return where() + ": " + *problem;
    if (covered != all.count()) {
      return fmt::format("{}: its pieces hold {} of {} elements", where(), covered, all.count());
    }
  }
  return std::nullopt;
}

}  // namespace

std::string PartEntry::to_text() const { return to_json(*this).dump(); }

PartEntry PartEntry::from_text(std::string_view text, const std::string& where) {
  return part_from(parse_json(text, where, 5), where);
}

Manifest Manifest::read(const fs::path& folder) {
  const fs::path path = folder / kFile;
  const std::string where = path.string();
  const MappedFile file(path);
  const std::string whole(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  check_mapped_reads();
  const json outer = parse_json(whole, where, 8);
  const json& body = member(outer, "manifest", where);
  if (outer.size() != 2) throw FileError(where + ": expected \"crc32c\" and \"manifest\", and no more");
  const std::string text = body.dump();
  const std::uint32_t found = crc32c(std::as_bytes(std::span(text)));
  if (const std::uint32_t expected = checksum_of(member(outer, "crc32c", where), where + ": crc32c");
      expected != found) {
    throw FileError(fmt::format("{}: is damaged: its checksum is {:08x}, expected {:08x}", where, found, expected));
  }
  const std::int64_t version = whole_number(member(body, "version", where), where + ": version");
  if (version < 1 || version > kVersion) {
    throw FileError(fmt::format("{}: has version {}; this program reads versions 1 to {}", where, version, kVersion));
  }
  Manifest manifest;
  manifest.kind = text_value(member(body, "kind", where), where + ": kind");
  const json& metadata = member(body, "metadata", where);
  if (!metadata.is_object()) throw FileError(where + ": metadata: expected an object");
  for (const auto& [key, value] : metadata.items()) manifest.metadata[key] = text_value(value, where + ": metadata");
  const json& parts = member(body, "parts", where);
  if (!parts.is_array()) throw FileError(where + ": parts: expected a list");
  for (const json& part : parts) manifest.parts.push_back(part_from(part, where));
  if (const auto problem = problem_of(manifest)) throw FileError(fmt::format("{}: {}", where, *problem));
  return manifest;
}

void Manifest::commit(const fs::path& folder) const {
  if (const auto problem = problem_of(*this)) {
    throw InvalidArgument(fmt::format("[Manifest.commit] {}: {}", folder.string(), *problem));
  }
  std::set<std::string> before;
  try {
    for (const PartEntry& part : read(folder).parts) before.insert(part.file);
  } catch (const FileError&) {  // NOLINT(bugprone-empty-catch): nothing was lost
    // There was no manifest, or it was damaged; then only the names of the files show which are ours.
  }
  json body = {{"version", kVersion}, {"kind", kind}, {"metadata", metadata}, {"parts", json::array()}};
  for (const PartEntry& part : parts) {
    body["parts"].push_back(to_json(part));
  }
  std::string text;
  try {
    text = body.dump();
  } catch (const json::exception&) {
    throw InvalidArgument(fmt::format("[Manifest.commit] {}: a name or the metadata is not UTF-8", folder.string()));
  }
  const json outer = {{"crc32c", fmt::format("{:08x}", crc32c(std::as_bytes(std::span(text))))}, {"manifest", body}};
  const std::string file = outer.dump(1) + '\n';
  write_whole_file(folder / kFile, std::as_bytes(std::span(file)));
  remove_outdated(folder, before, parts);
}

}  // namespace pleiad

#include "file/saved_set.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <set>

#include "core/text.h"
#include "file/checksum.h"
#include "pleiad/error.h"

namespace pleiad {

std::string part_file(const std::string& tag, int index) { return fmt::format("{}-{:05}.safetensors", tag, index); }

PartEntry write_part(const std::filesystem::path& folder, const std::string& tag, int index,
                     std::span<const PieceToWrite> pieces, const Metadata& metadata) {
  PartEntry part;
  part.file = part_file(tag, index);
  std::set<std::string> keys;
  std::vector<ArrayToWrite> arrays;
  for (const PieceToWrite& piece : pieces) {
    std::string key = piece.array;
    for (int n = 1; !keys.insert(key).second; ++n) key = fmt::format("{}#{}", piece.array, n);
    arrays.push_back({.name = key, .type = piece.type, .shape = piece.box.extent, .bytes = piece.bytes});
    part.pieces.push_back(
        {.array = piece.array, .key = key, .type = piece.type, .shape = piece.shape, .box = piece.box});
  }
  part.written = write_safetensors(folder / part.file, arrays, metadata);
  return part;
}

namespace {

std::size_t bytes_of(ElementType type, std::span<const std::int64_t> extent) {
  return static_cast<std::size_t>(array_bytes(type, extent).value_or(0));
}

/// Copies the intersection of two dense boxes of one array.
class BoxCopy {
 public:
  BoxCopy(const Box& from, const Box& to, std::size_t element) : from_(from), to_(to), common_(from.common(to)) {
    const std::size_t rank = from.begin.size();
    from_stride_.assign(rank + 1, element);
    to_stride_.assign(rank + 1, element);
    for (std::size_t d = rank; d-- > 0;) {
      from_stride_[d] = from_stride_[d + 1] * static_cast<std::size_t>(from.extent[d]);
      to_stride_[d] = to_stride_[d + 1] * static_cast<std::size_t>(to.extent[d]);
    }
    // From dimension run_ on, both boxes contain whole rows, so one copy suffices.
    run_ = rank;
    while (run_ > 0 &&
           (run_ == rank || (common_.extent[run_] == from.extent[run_] && common_.extent[run_] == to.extent[run_]))) {
      --run_;
    }
  }

  void run(const std::byte* from, std::byte* to) const {
    if (common_.count() > 0) copy(0, from, to);
  }

 private:
  void copy(std::size_t d, const std::byte* from, std::byte* to) const {
    if (d == from_.begin.size()) {
      std::memcpy(to, from, from_stride_[d]);
      return;
    }
    from += static_cast<std::size_t>(common_.begin[d] - from_.begin[d]) * from_stride_[d + 1];
    to += static_cast<std::size_t>(common_.begin[d] - to_.begin[d]) * to_stride_[d + 1];
    if (d == run_) {
      std::memcpy(to, from, static_cast<std::size_t>(common_.extent[d]) * from_stride_[d + 1]);
      return;
    }
    for (std::int64_t i = 0; i < common_.extent[d]; ++i) {
      copy(d + 1, from + static_cast<std::size_t>(i) * from_stride_[d + 1],
           to + static_cast<std::size_t>(i) * to_stride_[d + 1]);
    }
  }

  const Box& from_;
  const Box& to_;
  Box common_;
  std::vector<std::size_t> from_stride_;  // [d]: bytes of one index of dimension d - 1; [0] is unused
  std::vector<std::size_t> to_stride_;
  std::size_t run_ = 0;
};

}  // namespace

SavedSet::SavedSet(const std::filesystem::path& folder)
    : folder_(folder), manifest_(Manifest::read(folder)), parts_(manifest_.parts.size()) {
  for (std::size_t p = 0; p < manifest_.parts.size(); ++p) {
    for (std::size_t i = 0; i < manifest_.parts[p].pieces.size(); ++i) {
      const PieceEntry& piece = manifest_.parts[p].pieces[i];
      arrays_.try_emplace(piece.array, Array{.type = piece.type, .shape = piece.shape});
      pieces_[piece.array].push_back({.part = p, .piece = i});
    }
  }
}

std::vector<std::string> SavedSet::names() const {
  std::vector<std::string> result;
  for (const auto& [name, array] : arrays_) result.push_back(name);
  return result;
}

const SavedSet::Array& SavedSet::at(std::string_view name) const {
  const auto found = arrays_.find(name);
  if (found != arrays_.end()) return found->second;
  throw FileError(fmt::format("{}: {}", (folder_ / Manifest::kFile).string(), unknown_name("array", name, names())));
}

const Safetensors& SavedSet::part(std::size_t index) const {
  const PartEntry& entry = manifest_.parts[index];
  const std::scoped_lock lock(mutex_);
  if (parts_[index] != nullptr) return *parts_[index];
  const std::filesystem::path path = folder_ / entry.file;
  if (std::filesystem::is_symlink(path)) {
    throw FileError(fmt::format("{}: is a symbolic link; a part must be in the folder of its set", path.string()));
  }
  // The checksum comes first, because other errors of a damaged file are not helpful.
  {
    const MappedFile file(path);
    if (static_cast<std::int64_t>(file.bytes().size()) != entry.written.bytes) {
      throw FileError(fmt::format("{}: has {} bytes; the manifest says {}", path.string(), file.bytes().size(),
                                  entry.written.bytes));
    }
    const std::uint32_t found = crc32c(file.bytes());
    check_mapped_reads();
    if (found != entry.written.crc32c) {
      throw FileError(fmt::format("{}: is damaged: its checksum is {:08x}; the manifest says {:08x}", path.string(),
                                  found, entry.written.crc32c));
    }
  }
  auto opened = std::make_unique<Safetensors>(path);
  for (const PieceEntry& piece : entry.pieces) {
    const ArrayEntry& array = opened->at(piece.key);
    if (array.type.name != piece.type.name || array.shape != piece.box.extent) {
      throw FileError(fmt::format("{}: array \"{}\" is {} of shape [{}]; the manifest says {} of shape [{}]",
                                  path.string(), piece.key, array.type.name, fmt::join(array.shape, ", "),
                                  piece.type.name, fmt::join(piece.box.extent, ", ")));
    }
  }
  parts_[index] = std::move(opened);
  return *parts_[index];
}

void SavedSet::read(std::string_view name, const Box& box, std::span<std::byte> out) const {
  const Array& array = at(name);
  bool inside = box.begin.size() == array.shape.size() && box.extent.size() == array.shape.size();
  for (std::size_t d = 0; inside && d < array.shape.size(); ++d) {
    inside = box.begin[d] >= 0 && box.extent[d] >= 0 && box.begin[d] <= array.shape[d] &&
             box.extent[d] <= array.shape[d] - box.begin[d];
  }
  if (!inside) {
    throw InvalidArgument(
        fmt::format("[SavedSet.read] array \"{}\" has the shape [{}]; received a region of [{}] at [{}]", name,
                    fmt::join(array.shape, ", "), fmt::join(box.extent, ", "), fmt::join(box.begin, ", ")));
  }
  if (out.size() != bytes_of(array.type, box.extent)) {
    throw InvalidArgument(fmt::format("[SavedSet.read] array \"{}\": [{}] of {} are {} bytes; received a buffer of {}",
                                      name, fmt::join(box.extent, ", "), array.type.name,
                                      bytes_of(array.type, box.extent), out.size()));
  }
  if (out.empty()) return;
  for (const auto& [p, i] : pieces_.find(name)->second) {
    const PieceEntry& piece = manifest_.parts[p].pieces[i];
    if (piece.box.common(box).count() == 0) continue;
    const ArrayEntry& entry = part(p).at(piece.key);
    if (array.type.bits % 8 != 0) {
      if (piece.box != box) {
        throw InvalidArgument(
            fmt::format("[SavedSet.read] array \"{}\" of {} can only be read as a whole", name, array.type.name));
      }
      std::memcpy(out.data(), entry.bytes.data(), out.size());
    } else {
      BoxCopy(piece.box, box, static_cast<std::size_t>(array.type.bits / 8)).run(entry.bytes.data(), out.data());
    }
  }
  check_mapped_reads();
}

void SavedSet::read(std::string_view name, std::span<std::byte> out) const {
  read(name, Box::whole(at(name).shape), out);
}

void SavedSet::verify() const {
  for (std::size_t index = 0; index < manifest_.parts.size(); ++index) (void)part(index);
}

}  // namespace pleiad

#include "train/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>

#include "file/series.h"
#include "pleiad/error.h"

namespace pleiad {

namespace fs = std::filesystem;

namespace {

constexpr const char* kKind = "checkpoint";

std::vector<std::int64_t> lengths_of(const Shape& shape) { return {shape.begin(), shape.end()}; }

std::vector<std::int64_t> whole_shape(const CheckpointTensor& tensor) {
  return lengths_of(tensor.part == nullptr ? tensor.tensor.shape() : tensor.part->whole);
}

std::span<std::byte> bytes_of(const Tensor& tensor) { return {static_cast<std::byte*>(tensor.raw()), tensor.bytes()}; }

/// Returns a copy of a box of the held part.
Tensor copy_of_box(const Tensor& held, const ParameterPart::Box& box) {
  const Tensor copy(held.dtype(), Shape(box.length));
  const std::vector<std::int64_t> zero(box.length.size(), 0);
  copy_box(held.dtype(), copy.raw(), copy.shape(), zero, held.raw(), held.shape(), box.held, box.length);
  return copy;
}

/// Returns a number for part files that no file of the folder uses yet.
std::int64_t fresh_tag(const fs::path& folder) {
  std::int64_t tag = 0;
  while (std::ranges::any_of(fs::directory_iterator(folder), [&](const fs::directory_entry& entry) {
    return entry.path().filename().string().starts_with(fmt::format("state{}-", tag));
  })) {
    ++tag;
  }
  return tag;
}

/// Returns true if the manifest in the folder lists parts with this tag. An error may occur after the commit.
bool is_committed(const fs::path& folder, const std::string& tag) {
  try {
    const Manifest manifest = Manifest::read(folder);
    return std::ranges::any_of(manifest.parts, [&](const PartEntry& part) { return part.file.starts_with(tag + "-"); });
  } catch (const FileError&) {
    return false;
  }
}

void remove_parts(const fs::path& folder, const std::string& tag) {
  if (is_committed(folder, tag)) return;
  std::error_code ignored;
  std::vector<fs::path> doomed;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().filename().string().starts_with(tag + "-")) doomed.push_back(entry.path());
  }
  for (const fs::path& path : doomed) fs::remove(path, ignored);
  fs::remove(folder, ignored);  // fails silently if the folder is not empty
}

}  // namespace

std::string error_text_of(FunctionRef<void()> work) {
  try {
    work();
    return {};
  } catch (const std::exception& error) {
    return *error.what() == '\0' ? "failed" : error.what();
  }
}

void throw_on_all(Communicator& comm, const std::string& mine) {
  const std::vector<std::string> all = comm.gather_texts(mine);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    throw FileError(all.size() == 1 ? all[rank] : fmt::format("[rank {}] {}", rank, all[rank]));
  }
}

void write_checkpoint(const fs::path& folder, const std::vector<CheckpointTensor>& tensors, const Metadata& metadata,
                      Communicator& comm) {
  std::vector<std::int64_t> number = {0};
  throw_on_all(comm, error_text_of([&] {
                 if (comm.rank() != 0) return;
                 make_folder(folder);
                 number[0] = fresh_tag(folder);
               }));
  comm.broadcast(number, 0);
  const std::string tag = fmt::format("state{}", number[0]);
  std::vector<PieceToWrite> pieces;
  std::vector<Tensor> copies;  // copies of boxes that are not contiguous in the held part
  for (const CheckpointTensor& tensor : tensors) {
    const auto add = [&](const Box& box, const Tensor& numbers) {
      pieces.push_back({.array = tensor.name,
                        .type = element_type(tensor.tensor.dtype()),
                        .shape = whole_shape(tensor),
                        .box = box,
                        .bytes = bytes_of(numbers)});
    };
    if (tensor.part == nullptr) {
      if (comm.rank() == 0)
        // rank 0 holds the same values as every rank
        add(Box::whole(lengths_of(tensor.tensor.shape())), tensor.tensor);
      continue;
    }
    if (!tensor.part->writes) continue;
    const std::vector<ParameterPart::Box> boxes = tensor.part->boxes();
    for (const ParameterPart::Box& box : boxes) {
      const Tensor copy = boxes.size() == 1 ? tensor.tensor : copy_of_box(tensor.tensor, box);
      copies.push_back(copy);
      add({.begin = box.begin, .extent = box.length}, copy);
    }
  }
  try {
    std::string entry;
    throw_on_all(comm, error_text_of([&] {
                   if (!pieces.empty()) entry = write_part(folder, tag, comm.rank(), pieces).to_text();
                 }));
    const std::vector<std::string> entries = comm.gather_texts(entry);
    throw_on_all(comm, error_text_of([&] {
                   if (comm.rank() != 0) return;
                   Manifest manifest{.kind = kKind, .metadata = metadata, .parts = {}};
                   for (const std::string& text : entries) {
                     if (!text.empty()) manifest.parts.push_back(PartEntry::from_text(text, folder.string()));
                   }
                   manifest.commit(folder);
                 }));
  } catch (const FileError&) {
    if (comm.rank() == 0) remove_parts(folder, tag);
    throw;
  }
}

Checkpoint::Checkpoint(const fs::path& folder) : folder_(folder), set_(folder) {
  if (set_.manifest().kind != kKind) {
    throw FileError(fmt::format("{}: expected a checkpoint; this is a {}", (folder / Manifest::kFile).string(),
                                set_.manifest().kind));
  }
}

const std::string& Checkpoint::at(const std::string& key) const {
  const auto found = set_.manifest().metadata.find(key);
  if (found != set_.manifest().metadata.end()) return found->second;
  throw FileError(fmt::format("{}: the metadata has no \"{}\"", (folder_ / Manifest::kFile).string(), key));
}

Tensor Checkpoint::read(const CheckpointTensor& like) const {
  const SavedSet::Array& array = set_.at(like.name);
  const std::vector<std::int64_t> expected = whole_shape(like);
  const ElementType type = element_type(like.tensor.dtype());
  if (array.type.name != type.name || array.shape != expected) {
    throw FileError(fmt::format("{}: \"{}\" is {} of shape {}; expected {} of shape {}", folder_.string(), like.name,
                                array.type.name, Shape(array.shape).text(), type.name, Shape(expected).text()));
  }
  Tensor copy(like.tensor.dtype(), like.tensor.shape());
  if (like.part == nullptr) {
    set_.read(like.name, bytes_of(copy));
    return copy;
  }
  for (const ParameterPart::Box& box : like.part->boxes()) {
    const Tensor piece(copy.dtype(), Shape(box.length));
    set_.read(like.name, {.begin = box.begin, .extent = box.length}, bytes_of(piece));
    const std::vector<std::int64_t> zero(box.length.size(), 0);
    copy_box(copy.dtype(), copy.raw(), copy.shape(), box.held, piece.raw(), piece.shape(), zero, box.length);
  }
  return copy;
}

}  // namespace pleiad

// A file's bytes, read where they lie.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <utility>

namespace pleiad {

/// A regular file mapped for reading. Pages come from the disk when they are touched. The file must not be cut short
/// while it is mapped (one that is replaced by a rename, as AtomicFile does, is no trouble). Any thread may read.
class MappedFile {
 public:
  MappedFile() = default;
  /// A FileError where it cannot be opened, or is no regular file.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept
      : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, std::span<const std::byte>())) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

}  // namespace pleiad

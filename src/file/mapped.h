// A file's bytes, read where they lie.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <type_traits>
#include <utility>

namespace pleiad {

/// A regular file mapped for reading. Pages come from the disk when they are touched. Any thread may read, and calls
/// check_mapped_reads() before it trusts what it has read: of a file that was cut short meanwhile it read zeros. (One
/// that is replaced by a rename, as AtomicFile does, is no trouble.)
class MappedFile {
 public:
  MappedFile() = default;
  /// A FileError where it cannot be opened, or is no regular file.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept
      : path_(std::move(other.path_)),
        bytes_(std::exchange(other.bytes_, std::span<const std::byte>())),
        mapping_(other.mapping_) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(bytes_, other.bytes_);
    std::swap(mapping_, other.mapping_);
    return *this;
  }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  friend void check_mapped_reads();
  struct Mapping;
  class Guard;

  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
  Mapping* mapping_ = nullptr;
};

/// Throws a FileError that names the file if a mapped file became shorter, or its disk failed, while this thread read
/// it.
void check_mapped_reads();

/// The result of read(), checked. What read() throws for want of bytes gives way to the reason.
template <class Read>
auto checked_read(Read&& read) {
  try {
    if constexpr (std::is_void_v<decltype(read())>) {
      read();
      check_mapped_reads();
    } else {
      auto result = read();
      check_mapped_reads();
      return result;
    }
  } catch (...) {
    check_mapped_reads();
    throw;
  }
}

}  // namespace pleiad

// Memory-mapped files for reading.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <type_traits>
#include <utility>

namespace pleiad {

/// A regular file mapped for reading. The system loads pages when they are touched. Thread-safe. After reading, a
/// thread must call check_mapped_reads() before it uses the data: if the file was truncated meanwhile, the thread read
/// zeros. (Replacing the file by a rename, as AtomicFile does, is safe.)
class MappedFile {
 public:
  MappedFile() = default;
  /// Throws FileError if the file cannot be opened or is not a regular file.
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

/// Throws FileError with the file's name if a mapped file became shorter, or its disk failed, while this thread read
/// it.
void check_mapped_reads();

/// Calls read(), then check_mapped_reads(). If read() throws because of missing bytes, throws the reason instead.
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

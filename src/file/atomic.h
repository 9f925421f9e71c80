// Files that exist either completely or not at all.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace pleiad {

/// Returns the folder that contains `path`, or "." for a bare name.
inline std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

/// Flushes a folder's directory entries to disk. A rename or a new file in it then survives a power loss. Returns
/// false, with errno set, if that fails.
bool sync_folder(const std::filesystem::path& folder);

/// Whether written data stays in the page cache for the next reader. `pass` bypasses the cache, which costs the
/// processor almost nothing for long files that are written beside other work, but a reader then reads from the disk.
enum class Caching : std::uint8_t { keep, pass };

/// Writes a file under a temporary name in the same folder and renames it when it is complete and on disk. Until then,
/// and on any failure, an existing file of that name is unchanged. Not thread-safe.
///
/// Throws FileError with the file's name and the system's reason. A process that is killed meanwhile leaves a file
/// ".NAME.*.tmp" behind, which nothing reads.
class AtomicFile {
 public:
  /// The folder must exist. If `path` is a symbolic link, its target is replaced.
  explicit AtomicFile(const std::filesystem::path& path, Caching caching = Caching::keep);
  /// Removes the temporary file unless commit() was called.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// Calls fsync, renames the file, and calls fsync on the folder. Afterwards the file survives a power loss.
  void commit();

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  /// The CRC-32C of the bytes written so far.
  [[nodiscard]] std::uint32_t checksum() const { return checksum_; }

 private:
  [[noreturn]] void fail(const std::string& what) const;
  void pass_on(std::span<const std::byte> bytes);
  bool set_direct(bool direct);

  // Direct writes must be aligned to the disk's blocks, in the file and in memory, so bytes are collected here.
  struct Block {
    alignas(4096) std::array<std::byte, std::size_t{1} << 20> bytes;
  };

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int file_ = -1;
  std::uint64_t bytes_ = 0;
  std::uint64_t written_ = 0;  ///< bytes that have been passed to the system
  std::uint32_t checksum_ = 0;
  std::unique_ptr<Block> block_;  ///< null for Caching::keep
  std::size_t gathered_ = 0;
  bool direct_ = false;
};

/// Replaces the content of `path` by `bytes`, with the guarantees of AtomicFile.
void write_whole_file(const std::filesystem::path& path, std::span<const std::byte> bytes);

}  // namespace pleiad

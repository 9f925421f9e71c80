// Files that are there in whole or not at all.
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

/// The folder that holds `path`: "." for a bare name.
inline std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

/// Brings a folder's list of names to the disk: a rename in it, or a new file, survives a loss of power from then on.
/// False, with errno, if the system cannot.
bool sync_folder(const std::filesystem::path& folder);

/// Whether what is written stays in memory for whoever reads it next. Past the cache, long files cost the processor
/// almost nothing: for what is written beside other work. Whoever reads it soon reads it from the disk.
enum class Caching : std::uint8_t { keep, pass };

/// A file under a temporary name in its own folder, which takes its place when it is complete and on the disk. Until
/// then, and whatever goes wrong, a file of that name stays as it was. One thread at a time.
///
/// A failure is a FileError that names the file and the system's reason. A process that is killed in the middle leaves
/// a file ".NAME.*.tmp" behind, which nothing reads.
class AtomicFile {
 public:
  /// The folder must exist. A symbolic link is followed: what it points to is replaced.
  explicit AtomicFile(const std::filesystem::path& path, Caching caching = Caching::keep);
  /// Without a commit the temporary file is removed.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// fsync, rename, fsync of the folder. After that the file survives a loss of power.
  void commit();

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  /// CRC-32C of what was written so far.
  [[nodiscard]] std::uint32_t checksum() const { return checksum_; }

 private:
  [[noreturn]] void fail(const std::string& what) const;
  void pass_on(std::span<const std::byte> bytes);
  bool set_direct(bool direct);

  // Direct writes begin and end at multiples of the disk's blocks, in memory too, so bytes are gathered here.
  struct Block {
    alignas(4096) std::array<std::byte, std::size_t{1} << 20> bytes;
  };

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int file_ = -1;
  std::uint64_t bytes_ = 0;
  std::uint64_t written_ = 0;  ///< of those, what the system has
  std::uint32_t checksum_ = 0;
  std::unique_ptr<Block> block_;  ///< null where the cache is kept
  std::size_t gathered_ = 0;
  bool direct_ = false;
};

/// Replaces `path` by `bytes` as AtomicFile does.
void write_whole_file(const std::filesystem::path& path, std::span<const std::byte> bytes);

}  // namespace pleiad

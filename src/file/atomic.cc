#include "file/atomic.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/text.h"
#include "file/checksum.h"
#include "pleiad/error.h"

namespace pleiad {

namespace fs = std::filesystem;

namespace {

fs::path followed(const fs::path& path) {
  std::error_code problem;
  if (!fs::is_symlink(path, problem)) return path;
  fs::path target = fs::weakly_canonical(path, problem);
  return problem ? path : target;
}

}  // namespace

bool sync_folder(const fs::path& folder) {
  const int handle = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle < 0) return false;
  // Some network file systems do not support this and return EINVAL.
  const bool done = ::fsync(handle) == 0 || errno == EINVAL;
  const int reason = errno;
  ::close(handle);
  errno = reason;
  return done;
}

AtomicFile::AtomicFile(const fs::path& path, Caching caching) : path_(followed(path)) {
  static std::atomic<unsigned> serial = 0;
  if (!path_.has_filename()) throw InvalidArgument(fmt::format("\"{}\" does not name a file", path.string()));
  // If two processes have the same id (on two hosts, for example), one of them gets EEXIST and tries the next name.
  for (int attempt = 0; attempt < 100 && file_ < 0; ++attempt) {
    temporary_ = folder_of(path_) / fmt::format(".{}.{}-{}.tmp", path_.filename().string(), ::getpid(), serial++);
    file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file_ < 0 && errno != EEXIST) break;
  }
  if (file_ < 0) fail("cannot be created");
  if (caching == Caching::pass) block_ = std::make_unique_for_overwrite<Block>();
}

AtomicFile::~AtomicFile() {
  if (file_ < 0) return;
  ::close(file_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::fail(const std::string& what) const {
  const int reason = errno;
  throw FileError(fmt::format("{}: {}: {} (after {}; an existing file of that name is unchanged)", path_.string(), what,
                              std::strerror(reason), byte_size(written_)));
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  if (file_ < 0) throw StateError(fmt::format("{}: cannot be written after its commit", path_.string()));
  bytes_ += bytes.size();
  if (block_ == nullptr) {
    checksum_ = crc32c(bytes, checksum_);
    return pass_on(bytes);
  }
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), block_->bytes.size() - gathered_));
    checksum_ = crc32c(part, checksum_);
    std::memcpy(block_->bytes.data() + gathered_, part.data(), part.size());
    gathered_ += part.size();
    bytes = bytes.subspan(part.size());
    if (gathered_ < block_->bytes.size()) break;
    if (written_ == 0) direct_ = set_direct(true);
    gathered_ = 0;
    pass_on(block_->bytes);
  }
}

bool AtomicFile::set_direct(bool direct) {
  const int flags = ::fcntl(file_, F_GETFL);
  return flags >= 0 && ::fcntl(file_, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

void AtomicFile::pass_on(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    // Falls back to the page cache if the file system does not support direct writes, the disk's blocks are longer, or
    // only part of a block is left.
    if (written < 0 && errno == EINVAL && direct_) {
      direct_ = false;
      if (set_direct(false)) continue;
    }
    if (written < 0) fail("cannot be written");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    written_ += static_cast<std::uint64_t>(written);
  }
}

void AtomicFile::commit() {
  if (file_ < 0) throw StateError(fmt::format("{}: committed twice", path_.string()));
  if (gathered_ > 0) {
    if (std::exchange(direct_, false) && !set_direct(false)) fail("cannot be written");
    pass_on(std::span(block_->bytes).first(std::exchange(gathered_, 0)));
  }
  if (::fsync(file_) != 0) fail("cannot be flushed to disk");
  // A network file system may report only here that the disk is full.
  const int file = std::exchange(file_, -1);
  if (::close(file) != 0 || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int reason = errno;
    ::unlink(temporary_.c_str());
    errno = reason;
    fail("cannot be renamed to its final name");
  }
  if (!sync_folder(folder_of(path_))) {
    throw FileError(fmt::format("{}: was written, but its folder cannot be flushed to disk: {}", path_.string(),
                                std::strerror(errno)));
  }
}

void write_whole_file(const fs::path& path, std::span<const std::byte> bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

}  // namespace pleiad

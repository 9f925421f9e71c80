#include "file/atomic_path.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "file/atomic.h"
#include "pleiad/error.h"

namespace pleiad {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(const fs::path& path, const char* what) {
  throw FileError(fmt::format("{}: {}: {}", path.string(), what, std::strerror(errno)));
}

/// Flushes a file to disk. For a folder, flushes its whole file system, because it may contain a hundred thousand
/// files.
void sync(const fs::path& path, bool folder) {
  const int handle = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  // Some network file systems do not support this and return EINVAL.
  const bool done = handle >= 0 && ((folder ? ::syncfs(handle) : ::fsync(handle)) == 0 || errno == EINVAL);
  const int reason = errno;
  if (handle >= 0) ::close(handle);
  errno = reason;
  if (!done) fail(path, "cannot be flushed to disk");
}

}  // namespace

AtomicPath::AtomicPath(const fs::path& path, bool folder) : path_(path) {
  static std::atomic<unsigned> serial = 0;
  if (!path_.has_filename()) path_ = path_.parent_path();
  if (!path_.has_filename()) throw InvalidArgument(fmt::format("\"{}\" does not name a file", path.string()));
  for (int attempt = 0; attempt < 100; ++attempt) {
    temporary_ = folder_of(path_) / fmt::format(".{}.{}-{}.tmp", path_.filename().string(), ::getpid(), serial++);
    std::error_code ignored;
    if (!folder && fs::is_directory(folder_of(path_), ignored) && !fs::exists(temporary_, ignored)) return;
    if (folder && ::mkdir(temporary_.c_str(), 0777) == 0) return;
    if (!folder && !fs::is_directory(folder_of(path_), ignored)) errno = ENOENT;
    if (errno != EEXIST) break;
  }
  done_ = true;
  fail(path_, "cannot be created");
}

AtomicPath::~AtomicPath() {
  if (done_) return;
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
}

void AtomicPath::commit() {
  sync(temporary_, fs::is_directory(temporary_));
  std::error_code ignored;
  const bool swap = fs::is_directory(path_, ignored) || fs::is_directory(temporary_, ignored);
  if (swap && fs::exists(path_, ignored)) {
    // A folder cannot be renamed to one that is not empty, so the two are exchanged and the old one is deleted.
    if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) != 0) {
      fail(path_, "cannot be replaced");
    }
    done_ = true;
    // The new folder must be on disk before the old one is deleted.
    sync(folder_of(path_), false);
    fs::remove_all(temporary_, ignored);
    return;
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    fail(path_, "cannot be renamed to its final name");
  }
  done_ = true;
  sync(folder_of(path_), false);
}

}  // namespace pleiad

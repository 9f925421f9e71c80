#include "file/owner_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "pleiad/error.h"

namespace pleiad {

std::optional<OwnerLock> OwnerLock::take(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) throw FileError(fmt::format("{}: cannot be written: {}", path.string(), std::strerror(errno)));
  OwnerLock lock(file);
  if (::flock(file, LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno == EWOULDBLOCK) return std::nullopt;
  throw FileError(fmt::format("{}: cannot be locked: {}", path.string(), std::strerror(errno)));
}

OwnerLock::~OwnerLock() {
  if (file_ >= 0) ::close(file_);
}

}  // namespace pleiad

#include "file/mapped.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "pleiad/error.h"

namespace pleiad {

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  const auto fail = [&](const std::string& what) { throw FileError(fmt::format("{}: {}", path_.string(), what)); };
  // A named pipe without a writer would block.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) fail(fmt::format("cannot be opened: {}", std::strerror(errno)));
  struct stat status{};
  void* memory = nullptr;
  int reason = 0;
  if (::fstat(file, &status) != 0) {
    reason = errno;
  } else if (S_ISREG(status.st_mode) && status.st_size > 0) {
    memory = ::mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) reason = errno;
  }
  ::close(file);
  if (reason != 0) fail(fmt::format("cannot be mapped: {}", std::strerror(reason)));
  if (!S_ISREG(status.st_mode))
    fail(S_ISDIR(status.st_mode) ? "expected a file; it is a folder" : "is no regular file");
  bytes_ = {static_cast<const std::byte*>(memory), static_cast<std::size_t>(status.st_size)};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace pleiad

#include "engine/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "core/process.h"
#include "core/text.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {

[[noreturn]] void refuse_memory(std::size_t bytes, std::string_view why) {
  throw MemoryError(fmt::format("no memory for a segment of {}: {}; available: {}", byte_size(bytes), why,
                                byte_size(available_memory())));
}

// A committed segment takes its memory at once. An error now is better than the kernel's OOM killer later.
void check_room(std::size_t bytes, bool reserve_only) {
  if (!reserve_only && bytes > available_memory()) refuse_memory(bytes, "more than this process can get");
}

// Commits in small steps: a signal undoes the step that it interrupts, so a large one would never finish under a timer.
int commit(int fd, std::size_t first, std::size_t bytes) {
  constexpr std::size_t kPiece = std::size_t{16} << 20;
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t part = std::min(kPiece, bytes - done);
    const int failed = posix_fallocate(fd, static_cast<off_t>(first + done), static_cast<off_t>(part));
    if (failed == EINTR) continue;
    if (failed != 0) return failed;
    done += part;
  }
  return 0;
}

void* map(std::size_t bytes, int flags, int fd) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (data == MAP_FAILED) refuse_memory(bytes, std::strerror(errno));
  return data;
}

// Without huge pages, random rows of a large table miss the TLB at every row. The result is ignored, because not every
// kind of memory supports huge pages.
void prefer_huge_pages(void* data, std::size_t bytes) {
  if (bytes >= (std::size_t{4} << 20)) (void)madvise(data, bytes, MADV_HUGEPAGE);
}

}  // namespace

Segment::~Segment() {
  if (data_ != nullptr) munmap(data_, bytes_);
  if (fd_ >= 0) close(fd_);
}

Segment::Segment(Segment&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      fd_(std::exchange(other.fd_, -1)) {}

Segment& Segment::operator=(Segment&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(fd_, other.fd_);
  return *this;
}

Segment Segment::anonymous(std::size_t bytes, bool reserve_only) {
  check_room(bytes, reserve_only);
  Segment segment(map(bytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1), bytes, -1);
  if (!reserve_only) prefer_huge_pages(segment.data_, bytes);
  return segment;
}

Segment Segment::shareable(std::string_view name, std::size_t bytes, bool reserve_only) {
  check_room(bytes, reserve_only);
  const int fd = memfd_create(std::string(name).c_str(), MFD_CLOEXEC);
  if (fd < 0) refuse_memory(bytes, fmt::format("memfd_create: {}", std::strerror(errno)));
  const int failed =
      reserve_only ? (ftruncate(fd, static_cast<off_t>(bytes)) == 0 ? 0 : errno) : pleiad::commit(fd, 0, bytes);
  if (failed != 0) {
    close(fd);
    refuse_memory(bytes, std::strerror(failed));
  }
  return of_descriptor(fd, bytes);
}

Segment Segment::of_descriptor(int fd, std::size_t bytes) {
  try {
    return {map(bytes, MAP_SHARED | MAP_NORESERVE, fd), bytes, fd};
  } catch (...) {
    close(fd);
    throw;
  }
}

void Segment::commit(std::size_t first, std::size_t bytes) const {
  check_room(bytes, false);
  if (fd_ < 0) {
    char* start = static_cast<char*>(data_) + (first + 4095) / 4096 * 4096;
    prefer_huge_pages(start, bytes);
    return;
  }
  const int failed = pleiad::commit(fd_, first, bytes);
  if (failed != 0) refuse_memory(bytes, std::strerror(failed));
}

}  // namespace pleiad

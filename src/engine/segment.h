// Memory that several ranks of one host can share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace pleiad {

/// Rounds a number of bytes up to whole pages of 4,096 bytes.
template <typename Int>
constexpr Int round_to_pages(Int bytes) {
  return (bytes + 4095) / 4096 * 4096;
}

/// Owns one page-aligned mapping that is initially zero. It has no name in the file system, so nothing is left behind.
class Segment {
 public:
  Segment() = default;
  ~Segment();
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;

  /// Allocates memory of this process alone.
  static Segment anonymous(std::size_t bytes, bool reserve_only);
  /// Allocates memory that other processes can map through fd(). Commits it, so that a later access cannot fail, unless
  /// `reserve_only` is true. Throws MemoryError with the requested and the available size.
  static Segment shareable(std::string_view name, std::size_t bytes, bool reserve_only);
  /// Maps memory that another process allocated. Takes ownership of `fd` and closes it.
  static Segment of_descriptor(int fd, std::size_t bytes);

  /// Commits a range of a reserved segment, so that access to it cannot fail. If it throws MemoryError, the segment is
  /// unchanged.
  void commit(std::size_t first, std::size_t bytes) const;

  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// The file descriptor, or -1 for anonymous memory.
  [[nodiscard]] int fd() const { return fd_; }

 private:
  Segment(void* data, std::size_t bytes, int fd) : data_(data), bytes_(bytes), fd_(fd) {}

  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  int fd_ = -1;
};

}  // namespace pleiad

// A piece of memory that several ranks of one host can see.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace pleiad {

/// Rounds a number of bytes up to whole pages of 4,096.
template <typename Int>
constexpr Int round_to_pages(Int bytes) {
  return (bytes + 4095) / 4096 * 4096;
}

/// Owns one mapping, page-aligned and zero at the start. Nothing is left behind in the file system.
class Segment {
 public:
  Segment() = default;
  ~Segment();
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;

  /// Memory of this process alone.
  static Segment anonymous(std::size_t bytes, bool reserve_only);
  /// Memory that other processes can map through fd(). Committed here, so that a later touch cannot fail, unless
  /// `reserve_only`. A MemoryError says what was asked for and what there is.
  static Segment shareable(std::string_view name, std::size_t bytes, bool reserve_only);
  /// Maps what another process made. Takes over `fd` and closes it.
  static Segment of_descriptor(int fd, std::size_t bytes);

  /// Commits a part of a segment that was only reserved, so that touching it cannot fail. A MemoryError leaves the
  /// segment as it was.
  void commit(std::size_t first, std::size_t bytes) const;

  [[nodiscard]] void* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// -1 for anonymous memory.
  [[nodiscard]] int fd() const { return fd_; }

 private:
  Segment(void* data, std::size_t bytes, int fd) : data_(data), bytes_(bytes), fd_(fd) {}

  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  int fd_ = -1;
};

}  // namespace pleiad

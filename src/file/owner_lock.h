// One owner for a folder or file at a time.
#pragma once

#include <filesystem>
#include <optional>
#include <utility>

namespace pleiad {

/// An advisory lock (flock) on a file, which is made if it is missing. It ends with this object, and with the process,
/// however that ends.
class OwnerLock {
 public:
  /// Nothing if someone holds the lock, in this process or another. A FileError if the file cannot be made or locked.
  [[nodiscard]] static std::optional<OwnerLock> take(const std::filesystem::path& path);
  ~OwnerLock();
  OwnerLock(OwnerLock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  OwnerLock& operator=(OwnerLock&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }

 private:
  explicit OwnerLock(int file) : file_(file) {}

  int file_;
};

}  // namespace pleiad

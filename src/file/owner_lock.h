// Exclusive ownership of a folder or file.
#pragma once

#include <filesystem>
#include <optional>
#include <utility>

namespace pleiad {

/// An advisory lock (flock) on a file, which is created if missing. It is released with this object, and when the
/// process ends for any reason.
class OwnerLock {
 public:
  /// Returns nullopt if another holder, in this process or another one, has the lock. Throws FileError if the file
  /// cannot be created or locked.
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

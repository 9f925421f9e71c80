// Atomic replacement of files and folders that other libraries write by path.
#pragma once

#include <filesystem>

namespace pleiad {

/// A temporary path beside `path`, for a file or a folder that other code creates. commit() flushes it to disk and
/// renames it to `path`, replacing what was there. Without a commit the destructor deletes it. Throws FileError with
/// the path.
class AtomicPath {
 public:
  /// The parent folder of `path` must exist. If `folder` is true, creates an empty folder at the temporary path.
  AtomicPath(const std::filesystem::path& path, bool folder);
  ~AtomicPath();
  AtomicPath(const AtomicPath&) = delete;
  AtomicPath& operator=(const AtomicPath&) = delete;

  [[nodiscard]] const std::filesystem::path& temporary() const { return temporary_; }
  void commit();

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  bool done_ = false;
};

}  // namespace pleiad

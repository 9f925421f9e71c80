// Files and folders that other libraries write by their name: there in whole, or not at all.
#pragma once

#include <filesystem>

namespace pleiad {

/// A temporary name beside `path`, for a file or a folder that somebody else makes. `commit` brings it to the disk and
/// puts it in the place of what was there. Without one it is removed. A failure is a FileError that names the path.
class AtomicPath {
 public:
  /// The folder that `path` lies in must exist. `folder`: the temporary name is an empty folder already.
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

#include "tests/file/fault_disk.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <fstream>
#include <iterator>

namespace fs = std::filesystem;

namespace {

pleiad::test::FaultDisk* current = nullptr;
thread_local bool unwatched = false;

/// While an object of this class exists, calls of this thread are neither counted nor changed.
struct Unwatched {
  Unwatched() { unwatched = true; }
  ~Unwatched() { unwatched = false; }
};

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

std::string path_of(int file) {
  char target[PATH_MAX];
  const ssize_t length = ::readlink(("/proc/self/fd/" + std::to_string(file)).c_str(), target, sizeof target);
  return length < 0 ? std::string() : std::string(target, static_cast<std::size_t>(length));
}

/// Returns `path` relative to the folder `at`, which may be AT_FDCWD.
std::string path_at(int at, const char* path) {
  if (at == AT_FDCWD || *path == '/') return path;
  return path_of(at) + "/" + path;
}

/// Returns true if the call may proceed; otherwise sets errno to its error.
bool begin(const std::string& path) {
  if (current == nullptr || unwatched || !current->concerns(path)) return true;
  const Unwatched guard;
  return current->begin();
}

bool watched(const std::string& path) { return current != nullptr && !unwatched && current->concerns(path); }

int sync_file(const char* what, int file) {
  const std::string path = path_of(file);
  if (!watched(path)) return real<int(int)>(what)(file);
  if (!begin(path)) return -1;
  const Unwatched guard;
  current->sync(file, path);
  return 0;
}

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

// The replaced system calls. Only those that change something are watched.
#pragma GCC visibility push(default)
extern "C" {

int open(const char* path, int flags, ...) {
  mode_t mode = 0;
  if ((flags & (O_CREAT | O_TMPFILE)) != 0) {
    va_list list;
    va_start(list, flags);
    mode = va_arg(list, mode_t);
    va_end(list);
  }
  if ((flags & O_CREAT) != 0 && !begin(path)) return -1;
  return real<int(const char*, int, ...)>("open")(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  mode_t mode = 0;
  if ((flags & (O_CREAT | O_TMPFILE)) != 0) {
    va_list list;
    va_start(list, flags);
    mode = va_arg(list, mode_t);
    va_end(list);
  }
  return open(path, flags, mode);
}
ssize_t write(int file, const void* data, size_t bytes) {
  if (!begin(path_of(file))) return -1;
  return real<ssize_t(int, const void*, size_t)>("write")(file, data, bytes);
}
ssize_t pwrite(int file, const void* data, size_t bytes, off_t at) {
  if (!begin(path_of(file))) return -1;
  return real<ssize_t(int, const void*, size_t, off_t)>("pwrite")(file, data, bytes, at);
}
ssize_t pwritev(int file, const struct iovec* parts, int count, off_t at) {
  if (!begin(path_of(file))) return -1;
  return real<ssize_t(int, const struct iovec*, int, off_t)>("pwritev")(file, parts, count, at);
}
int close(int file) {
  const int flags = ::fcntl(file, F_GETFL);
  const bool writes = flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
  const bool may = !writes || begin(path_of(file));
  const int reason = errno;
  const int result = real<int(int)>("close")(file);
  if (may) return result;
  errno = reason;
  return -1;
}
int fsync(int file) { return sync_file("fsync", file); }
int fdatasync(int file) { return sync_file("fdatasync", file); }
int syncfs(int file) {
  const std::string path = path_of(file);
  if (!watched(path)) return real<int(int)>("syncfs")(file);
  if (!begin(path)) return -1;
  const Unwatched guard;
  current->sync_all();
  return 0;
}
int rename(const char* from, const char* to) {
  if (!begin(to)) return -1;
  return real<int(const char*, const char*)>("rename")(from, to);
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  if (!begin(path_at(to_folder, to))) return -1;
  return real<int(int, const char*, int, const char*, unsigned)>("renameat2")(from_folder, from, to_folder, to, flags);
}
int unlink(const char* path) {
  if (!begin(path)) return -1;
  return real<int(const char*)>("unlink")(path);
}
int unlinkat(int folder, const char* path, int flags) {
  if (!begin(path_at(folder, path))) return -1;
  return real<int(int, const char*, int)>("unlinkat")(folder, path, flags);
}
int remove(const char* path) {
  if (!begin(path)) return -1;
  return real<int(const char*)>("remove")(path);
}
int rmdir(const char* path) {
  if (!begin(path)) return -1;
  return real<int(const char*)>("rmdir")(path);
}
int mkdir(const char* path, mode_t mode) {
  if (!begin(path)) return -1;
  return real<int(const char*, mode_t)>("mkdir")(path, mode);
}

}  // extern "C"
#pragma GCC visibility pop

namespace pleiad::test {

FaultDisk::FaultDisk(fs::path root) : root_(std::move(root)) {
  const Unwatched guard;
  sync_all();
  syncs_.clear();
  current = this;
}

FaultDisk::~FaultDisk() {
  current = nullptr;
  for (const auto& [node, handle] : handles_) ::close(handle);
}

void FaultDisk::fail(int call, int error) {
  fails_at_ = calls_ + call;
  error_ = error;
}

void FaultDisk::leave_out_sync(int sync) { left_out_ = static_cast<int>(syncs_.size()) + sync; }

bool FaultDisk::concerns(const std::string& path) const {
  const std::string root = root_.string();
  return path == root || path.starts_with(root + "/");
}

bool FaultDisk::begin() {
  ++calls_;
  if (look_) look_();
  if (calls_ != fails_at_) return true;
  errno = error_;
  return false;
}

void FaultDisk::keep(const fs::path& path) {
  struct stat about{};
  if (::lstat(path.c_str(), &about) != 0 || handles_.contains(about.st_ino)) return;
  handles_[about.st_ino] = ::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC);
}

FaultDisk::Names FaultDisk::names_in(const fs::path& folder) const {
  Names names;
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator(folder, absent)) {
    struct stat about{};
    if (::lstat(entry.path().c_str(), &about) != 0) continue;
    names[entry.path().filename().string()] = {.node = about.st_ino, .folder = S_ISDIR(about.st_mode)};
  }
  return names;
}

void FaultDisk::sync(int file, const std::string& path) {
  syncs_.push_back(path);
  if (static_cast<int>(syncs_.size()) == left_out_) return;
  struct stat about{};
  ::fstat(file, &about);
  keep(path);
  if (!S_ISDIR(about.st_mode)) {
    data_[about.st_ino] = content_of(path);
    return;
  }
  folders_[about.st_ino] = names_in(path);
  for (const auto& [name, entry] : folders_[about.st_ino]) keep(fs::path(path) / name);
}

void FaultDisk::sync_all() {
  syncs_.push_back(root_.string());
  if (static_cast<int>(syncs_.size()) == left_out_) return;
  const auto take = [this](const fs::path& path) {
    struct stat about{};
    if (::lstat(path.c_str(), &about) != 0) return;
    keep(path);
    if (S_ISDIR(about.st_mode)) {
      folders_[about.st_ino] = names_in(path);
    } else {
      data_[about.st_ino] = content_of(path);
    }
  };
  take(root_);
  for (const auto& entry : fs::recursive_directory_iterator(root_)) take(entry.path());
}

void FaultDisk::lose_power(const fs::path& to, Loss loss, unsigned seed) const {
  struct stat about{};
  std::map<std::uint64_t, fs::path> places;
  for (const auto& entry : fs::recursive_directory_iterator(root_)) {
    if (::lstat(entry.path().c_str(), &about) == 0) places[about.st_ino] = entry.path();
  }
  ::lstat(root_.c_str(), &about);
  places[about.st_ino] = root_;
  fs::remove_all(to);
  fs::create_directories(to);
  restore(places, about.st_ino, to, loss, seed);
}

void FaultDisk::restore(const std::map<std::uint64_t, fs::path>& places, std::uint64_t node, const fs::path& to,
                        Loss loss, unsigned& random) const {
  const auto coin = [&] {
    random = random * 1103515245U + 12345U;
    return (random >> 16 & 1) != 0;
  };
  const auto known = folders_.find(node);
  const auto place = places.find(node);
  const Names synced = known == folders_.end() ? Names() : known->second;
  const Names now = place == places.end() ? Names() : names_in(place->second);
  Names left = loss == Loss::all_unsynced ? synced : now;
  if (loss == Loss::some) {
    for (const auto& [name, entry] : synced) {
      if (coin()) left[name] = entry;
    }
    for (const auto& [name, entry] : now) {
      if (!synced.contains(name) && coin()) left.erase(name);
    }
  }
  for (const auto& [name, entry] : left) {
    if (entry.folder) {
      fs::create_directory(to / name);
      restore(places, entry.node, to / name, loss, random);
      continue;
    }
    const auto data = data_.find(entry.node);
    const auto file = places.find(entry.node);
    std::string text = data == data_.end() ? std::string() : data->second;
    if (loss == Loss::some && file != places.end() && coin()) text = content_of(file->second);
    std::ofstream(to / name, std::ios::binary) << text;
  }
}

}  // namespace pleiad::test

#include "file/mapped.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "pleiad/error.h"

namespace pleiad {

// An entry of the list in which the signal handler looks up mappings. Entries are reused and never freed, so the
// handler can walk the list at any time.
struct MappedFile::Mapping {
  std::atomic<std::uintptr_t> begin{0};  ///< 0 while the entry is free
  std::atomic<std::uintptr_t> end{0};
  std::atomic<bool> cut{false};
  std::string path;  ///< written while the entry is free
  Mapping* next = nullptr;
};

// Handles SIGBUS, which a thread gets when it reads a mapped file that became shorter or whose disk failed. The handler
// maps zeros in place of the missing pages, so that the read completes, and sets a flag for the thread, which
// check_mapped_reads() turns into a FileError. Any other SIGBUS goes to the previous handler.
class MappedFile::Guard {
 public:
  static Guard& instance() {
    static Guard guard;
    return guard;
  }

  Mapping* add(const std::string& path, const void* memory, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    Mapping* entry = nullptr;
    if (free_.empty()) {
      entry = new Mapping;
      entry->next = first_.load();
      first_.store(entry);
    } else {
      entry = free_.back();
      free_.pop_back();
    }
    entry->path = path;
    entry->end.store(reinterpret_cast<std::uintptr_t>(memory) + bytes);
    entry->begin.store(reinterpret_cast<std::uintptr_t>(memory));
    return entry;
  }

  void remove(Mapping* entry) {
    const std::lock_guard lock(mutex_);
    entry->begin.store(0);
    if (!entry->cut.load()) free_.push_back(entry);  // otherwise a thread may still need its path
  }

  static void check() {
    Mapping* const cut = std::exchange(cut_, nullptr);
    if (cut == nullptr) return;
    throw FileError(fmt::format("{}: became shorter while it was read, or its disk failed", cut->path));
  }

 private:
  Guard() {
    struct sigaction action{};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &before_);
  }

  static void on_signal(int number, siginfo_t* info, void* context) {
    const int saved = errno;
    const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
    for (Mapping* entry = first_.load(); entry != nullptr; entry = entry->next) {
      const std::uintptr_t begin = entry->begin.load();
      const std::uintptr_t end = entry->end.load();
      if (begin == 0 || address < begin || address >= end) continue;
      const std::uintptr_t page = address / page_size_ * page_size_;
      void* const zeros =
          ::mmap(reinterpret_cast<void*>(page), end - page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
      if (zeros == MAP_FAILED) break;
      entry->cut.store(true);
      cut_ = entry;
      errno = saved;
      return;
    }
    errno = saved;
    if ((before_.sa_flags & SA_SIGINFO) != 0) return before_.sa_sigaction(number, info, context);
    if (before_.sa_handler != SIG_DFL && before_.sa_handler != SIG_IGN) return before_.sa_handler(number);
    ::sigaction(SIGBUS, &before_, nullptr);
    (void)::raise(number);  // delivered when this handler returns, with the previous action
  }

  static inline const auto page_size_ = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  static inline std::atomic<Mapping*> first_{nullptr};
  static inline struct sigaction before_{};
  static inline thread_local Mapping* cut_ = nullptr;  // the mapping that this thread could not read

  std::mutex mutex_;
  std::vector<Mapping*> free_;  // guarded by mutex_
};

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
  const auto fail = [&](const std::string& what) { throw FileError(fmt::format("{}: {}", path_.string(), what)); };
  // O_NONBLOCK, because opening a named pipe without a writer would block.
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
    fail(S_ISDIR(status.st_mode) ? "expected a file; it is a folder" : "is not a regular file");
  bytes_ = {static_cast<const std::byte*>(memory), static_cast<std::size_t>(status.st_size)};
  if (!bytes_.empty()) mapping_ = Guard::instance().add(path_.string(), memory, bytes_.size());
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  Guard::instance().remove(mapping_);
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void check_mapped_reads() { MappedFile::Guard::check(); }

}  // namespace pleiad

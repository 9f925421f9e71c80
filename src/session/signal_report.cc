#include "session/signal_report.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <new>
#include <thread>

#include "core/process.h"

namespace pleiad {

namespace {

// A signal handler can only access globals.
std::atomic<int> signal_fd{-1};

void on_signal(int) {
  const int before = errno;
  const int fd = signal_fd.load();
  const std::uint64_t one = 1;
  if (fd >= 0) (void)!write(fd, &one, sizeof one);
  errno = before;
}

class InstalledReport final : public SignalReport {
 public:
  InstalledReport(int fd, std::function<void()> print) : fd_(fd), generation_(fork_generation()) {
    thread_ = std::thread([fd, print = std::move(print)] {
      for (;;) {
        std::uint64_t word = 0;
        if (read(fd, &word, sizeof word) != sizeof word && errno != EINTR) return;
        if (word >= kStop) return;
        if (word > 0) print();
      }
    });
    struct sigaction action{};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &action, &before_);
  }

  ~InstalledReport() override {
    if (generation_ != fork_generation()) {
      new (&thread_) std::thread;  // the thread exists in the parent process only
      return;
    }
    // If another handler has been installed since, it stays.
    struct sigaction present{};
    sigaction(SIGUSR1, nullptr, &present);
    if (present.sa_handler == on_signal) sigaction(SIGUSR1, &before_, nullptr);
    signal_fd.store(-1);
    const std::uint64_t stop = kStop;
    (void)!write(fd_, &stop, sizeof stop);
    thread_.join();
    close(fd_);
  }

 private:
  static constexpr std::uint64_t kStop = std::uint64_t{1} << 40;

  int fd_;
  struct sigaction before_{};
  std::uint64_t generation_;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<SignalReport> SignalReport::install(std::function<void()> print) {
  struct sigaction present{};
  sigaction(SIGUSR1, nullptr, &present);
  if (present.sa_handler != SIG_DFL) return nullptr;
  const int fd = eventfd(0, EFD_CLOEXEC);
  int none = -1;
  if (fd < 0) return nullptr;
  if (!signal_fd.compare_exchange_strong(none, fd)) {
    close(fd);
    return nullptr;
  }
  return std::make_unique<InstalledReport>(fd, std::move(print));
}

}  // namespace pleiad

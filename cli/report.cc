#include "report.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <stdexcept>

namespace pleiad::cli {

namespace {

struct Address {
  sockaddr_un where{};
  socklen_t size = 0;
};

Address address_of(const std::string& name) {
  Address address;
  address.where.sun_family = AF_UNIX;
  const std::size_t length = std::min(name.size(), sizeof address.where.sun_path - 1);
  std::memcpy(address.where.sun_path + 1, name.data(), length);  // a leading zero byte selects the abstract namespace
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return address;
}

}  // namespace

Listener listen_for_reports() {
  std::random_device random;
  const std::uint64_t key = (static_cast<std::uint64_t>(random()) << 32) | random();
  Listener listener{.fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
                    .name = fmt::format("pleiad-{}-{:016x}", getpid(), key)};
  const Address address = address_of(listener.name);
  if (listener.fd < 0 || bind(listener.fd, reinterpret_cast<const sockaddr*>(&address.where), address.size) != 0 ||
      listen(listener.fd, SOMAXCONN) != 0) {
    throw std::runtime_error(fmt::format("cannot listen for the ranks: {}", std::strerror(errno)));
  }
  return listener;
}

int accept_wrapper(int listener) {
  for (;;) {
    const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return -1;
    ucred peer{};
    socklen_t size = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid()) return fd;
    close(fd);
  }
}

int connect_to_launcher() {
  const char* name = std::getenv(kLauncherVariable);
  if (name == nullptr) return -1;
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const Address address = address_of(name);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address.where), address.size) == 0) return fd;
  close(fd);
  return -1;
}

bool send_report(int fd, const Report& report) {
  return fd >= 0 && send(fd, &report, sizeof report, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof report);
}

Received receive_report(int fd, Report& report) {
  const ssize_t size = recv(fd, &report, sizeof report, 0);
  if (size == static_cast<ssize_t>(sizeof report)) return Received::report;
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return Received::nothing;
  return Received::closed;
}

std::string describe(int status) {
  if (!WIFSIGNALED(status)) return fmt::format("exited with code {}", WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  const char* name = sigabbrev_np(signal);
  const char* words = sigdescr_np(signal);
  return fmt::format("died of SIG{} ({}{})", name ? name : std::to_string(signal), words ? words : "unknown",
                     WCOREDUMP(status) ? ", core dumped" : "");
}

int exit_code(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

}  // namespace pleiad::cli

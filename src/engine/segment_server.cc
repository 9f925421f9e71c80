#include "engine/segment_server.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "engine/authentication.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {

struct SegmentRequest {
  JobKey key;
  std::uint64_t id;
};

// The address is in the abstract namespace: its name begins with a zero byte and disappears with the socket.
socklen_t address_of(const JobKey& key, int rank, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  const std::string name = fmt::format("pleiad-{:016x}-{}", public_id(key), rank);
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

int new_socket(int seconds) {
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (fd < 0) throw TransportError(fmt::format("cannot create a Unix socket: {}", std::strerror(errno)));
  const timeval limit{.tv_sec = seconds, .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  return fd;
}

// Repeats `call` while signals interrupt it. The socket's timeout limits each attempt.
template <class F>
auto despite_signals(F&& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// Sends one byte, with the descriptor attached if `fd` is not negative.
void send_descriptor(int connection, int fd) {
  char byte = fd >= 0 ? 1 : 0;
  iovec data{.iov_base = &byte, .iov_len = 1};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = space;
    message.msg_controllen = sizeof space;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  (void)despite_signals([&] { return sendmsg(connection, &message, MSG_NOSIGNAL); });
}

// Returns true if the process at the other end belongs to this user.
bool same_user(int connection) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

// Returns the descriptor, or -1 with the reason in `problem`.
int receive_descriptor(int connection, std::string& problem) {
  char byte = 0;
  iovec data{.iov_base = &byte, .iov_len = 1};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = space;
  message.msg_controllen = sizeof space;
  const ssize_t got = despite_signals([&] { return recvmsg(connection, &message, MSG_CMSG_CLOEXEC); });
  if (got < 0) problem = std::strerror(errno);
  if (got == 0) problem = "it closed the connection";
  if (got == 1 && byte != 1) problem = "it has no such segment";
  if (got != 1 || byte != 1) return -1;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) {
    problem = "this process has no free file descriptor (see ulimit -n)";
    return -1;
  }
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return fd;
}

}  // namespace

SegmentServer::SegmentServer(const JobKey& key, int rank)
    : key_(key), listener_(new_socket(1)), stop_(eventfd(0, EFD_CLOEXEC)), spare_(eventfd(0, EFD_CLOEXEC)) {
  sockaddr_un address{};
  const socklen_t length = address_of(key, rank, address);
  if (bind(listener_, reinterpret_cast<sockaddr*>(&address), length) != 0 || listen(listener_, 128) != 0 || stop_ < 0) {
    const std::string why = std::strerror(errno);
    close(listener_);
    if (stop_ >= 0) close(stop_);
    if (spare_ >= 0) close(spare_);
    throw TransportError(fmt::format("rank {} cannot listen on its Unix socket: {}", rank, why));
  }
  thread_ = std::thread([this] { run(); });
}

SegmentServer::~SegmentServer() {
  const std::uint64_t one = 1;
  (void)!write(stop_, &one, sizeof one);
  if (thread_.joinable()) thread_.join();
  close(listener_);
  close(stop_);
  if (spare_ >= 0) close(spare_);
  for (const auto& [rank, fd] : watched_) close(fd);
}

void SegmentServer::publish(std::uint64_t id, int fd) {
  const std::lock_guard lock(mutex_);
  published_[id] = fd;
}

void SegmentServer::watch(const std::vector<std::pair<int, int>>& ranks_and_pids, std::function<void(int)> died) {
  std::vector<std::pair<int, int>> opened;
  std::vector<int> gone;
  for (const auto& [rank, pid] : ranks_and_pids) {
    const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
    if (fd >= 0) {
      opened.emplace_back(rank, fd);
    } else if (errno == ESRCH) {
      gone.push_back(rank);
    } else {
      const std::string why = std::strerror(errno);
      for (const auto& [other, open] : opened) close(open);
      throw TransportError(fmt::format("cannot watch rank {} (pid {}): {}", rank, pid, why));
    }
  }
  for (const int rank : gone) died(rank);
  {
    const std::lock_guard lock(mutex_);
    watched_ = std::move(opened);
    died_ = std::move(died);
  }
  const std::uint64_t look_again = 0x100000000;
  (void)!write(stop_, &look_again, sizeof look_again);
}

void SegmentServer::run() {
  for (;;) {
    std::vector<pollfd> waits = {{.fd = stop_, .events = POLLIN, .revents = 0},
                                 {.fd = listener_, .events = POLLIN, .revents = 0}};
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [rank, fd] : watched_) waits.push_back({.fd = fd, .events = POLLIN, .revents = 0});
    }
    if (poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) return;
    // Deaths come first, because they are the most urgent.
    for (std::size_t i = 2; i < waits.size(); ++i) {
      if (waits[i].revents == 0) continue;
      int rank = -1;
      std::function<void(int)> died;
      {
        const std::lock_guard lock(mutex_);
        for (auto at = watched_.begin(); at != watched_.end(); ++at) {
          if (at->second != waits[i].fd) continue;
          rank = at->first;
          close(at->second);
          watched_.erase(at);
          break;
        }
        died = died_;
      }
      if (rank >= 0 && died) died(rank);
    }
    if ((waits[0].revents & POLLIN) != 0) {
      std::uint64_t word = 0;
      (void)!read(stop_, &word, sizeof word);
      if ((word & 0xffffffff) != 0) return;
    }
    if ((waits[1].revents & POLLIN) != 0) {
      int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection < 0 && (errno == EMFILE || errno == ENFILE) && spare_ >= 0) {
        // No descriptor is left, and the connection would stay first in the queue. Closing the spare one makes room for
        // it.
        close(std::exchange(spare_, -1));
        connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      }
      if (connection >= 0) {
        answer(connection);
        close(connection);
      } else if (errno != EINTR && errno != ECONNABORTED) {
        std::this_thread::sleep_for(
            std::chrono::milliseconds(10));  // the system lacks a resource; poll would return at once
      }
      if (spare_ < 0) spare_ = eventfd(0, EFD_CLOEXEC);
    }
  }
}

void SegmentServer::answer(int connection) {
  const timeval limit{.tv_sec = 1, .tv_usec = 0};
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  if (!same_user(connection)) return;
  SegmentRequest request{};
  const ssize_t got = despite_signals([&] { return recv(connection, &request, sizeof request, 0); });
  if (got != sizeof request || !(request.key == key_)) return;
  int fd = -1;
  const std::lock_guard lock(mutex_);
  if (const auto found = published_.find(request.id); found != published_.end()) fd = found->second;
  send_descriptor(connection, fd);
}

int SegmentServer::fetch(const JobKey& key, int from_rank, std::uint64_t id) {
  const int connection = new_socket(10);
  sockaddr_un address{};
  const socklen_t length = address_of(key, from_rank, address);
  const SegmentRequest request{.key = key, .id = id};
  int fd = -1;
  std::string problem;
  const auto reach = [&] { return connect(connection, reinterpret_cast<sockaddr*>(&address), length); };
  const auto ask = [&] { return send(connection, &request, sizeof request, MSG_NOSIGNAL); };
  if (despite_signals(reach) != 0) {
    problem = std::strerror(errno);
  } else if (!same_user(connection)) {
    problem = "the socket belongs to another user";  // another user must not see the key
  } else if (despite_signals(ask) != sizeof request) {
    problem = std::strerror(errno);
  } else {
    fd = receive_descriptor(connection, problem);
  }
  close(connection);
  if (fd < 0) throw TransportError(fmt::format("cannot fetch segment {} from rank {}: {}", id, from_rank, problem));
  return fd;
}

}  // namespace pleiad

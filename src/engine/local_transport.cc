#include "engine/local_transport.h"

#include <poll.h>
#include <sodium.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "engine/authentication.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {

constexpr int kPollMilliseconds = 50;  // how often a wait calls the WaitCallback
constexpr std::size_t kMaxBytes = std::size_t{1} << 30;

using JobDigest = std::array<unsigned char, 32>;

// The job's name may contain a secret (the key of `pleiad launch`), so only hashes of it leave the process.
JobDigest digest_of(const std::string& purpose, const std::string& job) {
  const std::string text = fmt::format("{} {} {}", purpose, geteuid(), job);
  JobDigest digest{};
  crypto_generichash(digest.data(), digest.size(), reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                     nullptr, 0);
  return digest;
}

struct LocalAddress {
  sockaddr_un where{};
  socklen_t size = 0;
};

// The address is in the abstract namespace: its name begins with a zero byte and disappears with the socket.
LocalAddress address_of_job(const std::string& job) {
  LocalAddress address;
  address.where.sun_family = AF_UNIX;
  std::string name = "pleiad-job-";
  const JobDigest digest = digest_of("name", job);
  for (std::size_t i = 0; i < 16; ++i) name += fmt::format("{:02x}", digest[i]);
  std::memcpy(address.where.sun_path + 1, name.data(), name.size());
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

struct LocalHello {
  JobDigest tag{};
  std::int32_t rank = -1;
  std::int32_t size = 0;
};

struct LocalHead {
  std::uint32_t error = 0;  ///< 1: the payload is an error message
  std::uint32_t bytes = 0;
};

/// A connection and the bytes received on it. Its functions do not block.
struct LocalPeer {
  int fd = -1;
  int rank = -1;
  ucred who{};
  std::vector<char> in;
  bool closed = false;

  [[nodiscard]] std::string name() const {
    return rank < 0 ? fmt::format("pid {}", who.pid) : fmt::format("rank {} (pid {})", rank, who.pid);
  }

  void read_all() {
    char buffer[65536];
    for (;;) {
      const ssize_t got = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
      if (got > 0) {
        in.insert(in.end(), buffer, buffer + got);
        continue;
      }
      if (got < 0 && errno == EINTR) continue;
      closed = got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
      return;
    }
  }

  /// Returns false until a whole frame has arrived.
  bool take_frame(LocalHead& head, std::vector<char>& payload) {
    if (in.size() < sizeof head) return false;
    std::memcpy(&head, in.data(), sizeof head);
    if (in.size() < sizeof head + head.bytes) return false;
    const auto begin = in.begin() + sizeof head;
    payload.assign(begin, begin + head.bytes);
    in.erase(in.begin(), begin + head.bytes);
    return true;
  }
};

class LocalTransport final : public Transport {
 public:
  LocalTransport(const Launch& launch, WaitCallback on_wait)
      : job_(launch.job), rank_(launch.rank), size_(launch.size), on_wait_(std::move(on_wait)), parent_(getppid()) {}

  ~LocalTransport() override {
    for (const LocalPeer& peer : peers_) close(peer.fd);
    if (listener_ >= 0) close(listener_);
  }
  LocalTransport(const LocalTransport&) = delete;
  LocalTransport& operator=(const LocalTransport&) = delete;

  void connect_all() {
    if (size_ == 1) return;
    rank_ == 0 ? wait_for_ranks() : connect_to_rank_0();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  EngineKind kind() const override { return EngineKind::local; }
  bool reaches_other_hosts() const override { return false; }

  std::string all_gather(const void* in, void* out, std::size_t bytes) override {
    auto* all = static_cast<char*>(out);
    const std::size_t total = bytes * static_cast<std::size_t>(size_);
    if (total > kMaxBytes) return "the message is larger than 1 GiB";
    std::memcpy(all + static_cast<std::size_t>(rank_) * bytes, in, bytes);
    if (size_ == 1) return "";
    try {
      if (rank_ == 0) {
        collect(all, bytes);
        for (LocalPeer& peer : peers_) send_frame(peer, 0, all, total);
      } else {
        send_frame(peers_[0], 0, in, bytes);
        const std::vector<char> answer = await_frame(peers_[0]);
        if (answer.size() != total) return "rank 0 sent a reply of the wrong size";
        std::memcpy(all, answer.data(), total);
      }
    } catch (const TransportError& error) {
      return error.what();
    }
    return "";
  }

  void start(std::shared_ptr<TransportRequest> request) override {
    request->error = "a world without MPI cannot reach other hosts";
    request->done.store(true);
    request->finished.notify();
  }

  void finish(bool, std::span<const int>) override {}

 private:
  // Accepts the other ranks on rank 0. The socket listens only until all have connected, so that a later session can
  // use the same address.
  void wait_for_ranks() {
    listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const LocalAddress address = address_of_job(job_);
    if (listener_ < 0 || bind(listener_, reinterpret_cast<const sockaddr*>(&address.where), address.size) != 0 ||
        listen(listener_, size_) != 0) {
      if (errno == EADDRINUSE) throw StateError("[start] another process of this job also claims to be rank 0");
      throw TransportError(fmt::format("[start] rank 0 cannot listen on its Unix socket: {}", std::strerror(errno)));
    }
    std::vector<LocalPeer> arrived;
    int known = 0;
    try {
      while (known < size_ - 1) {
        wait_for_input(peers_, arrived);
        accept_peers(arrived);
        for (auto at = arrived.begin(); at != arrived.end();) {
          at->read_all();
          if (at->in.size() >= sizeof(LocalHello)) {
            check_hello(*at);
            ++known;
            peers_.push_back(std::move(*at));
            at = arrived.erase(at);
          } else if (at->closed) {
            close(at->fd);
            at = arrived.erase(at);
          } else {
            ++at;
          }
        }
        for (LocalPeer& peer : peers_) require_open(peer);
      }
    } catch (const Error& error) {
      for (LocalPeer& peer : peers_) send_error(peer, error.what());
      for (LocalPeer& peer : arrived) close(peer.fd);
      throw;
    }
    for (LocalPeer& peer : arrived) close(peer.fd);
    close(listener_);
    listener_ = -1;
    for (LocalPeer& peer : peers_) send_frame(peer, 0, "", 0);
  }

  void accept_peers(std::vector<LocalPeer>& arrived) const {
    for (;;) {
      LocalPeer peer{.fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC), .rank = -1, .who = {}, .in = {}};
      if (peer.fd < 0) return;
      socklen_t size = sizeof peer.who;
      if (getsockopt(peer.fd, SOL_SOCKET, SO_PEERCRED, &peer.who, &size) == 0 && peer.who.uid == geteuid()) {
        arrived.push_back(std::move(peer));
      } else {
        close(peer.fd);
      }
    }
  }

  void check_hello(LocalPeer& peer) {
    LocalHello hello;
    std::memcpy(&hello, peer.in.data(), sizeof hello);
    peer.in.erase(peer.in.begin(), peer.in.begin() + sizeof hello);
    const JobDigest tag = digest_of("hello", job_);
    if (sodium_memcmp(tag.data(), hello.tag.data(), tag.size()) != 0) {
      throw StateError(
          fmt::format("[start] {} tried to connect to the ranks of this job but does not belong to it", peer.name()));
    }
    peer.rank = hello.rank;
    if (hello.size != size_ || hello.rank < 1 || hello.rank >= size_) {
      throw StateError(
          fmt::format("[start] {} is started as rank {} of {}, but rank 0 as one of {}; start all ranks with the same "
                      "number of processes",
                      peer.name(), hello.rank, hello.size, size_));
    }
    for (const LocalPeer& other : peers_) {
      if (other.rank != peer.rank) continue;
      send_error(peer, fmt::format("[start] pid {} is rank {} already", other.who.pid, peer.rank));
      throw StateError(fmt::format("[start] two processes claim to be rank {}: pid {} and pid {}", peer.rank,
                                   other.who.pid, peer.who.pid));
    }
  }

  void connect_to_rank_0() {
    const LocalAddress address = address_of_job(job_);
    for (;;) {
      const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (fd < 0) throw TransportError(fmt::format("[start] cannot make a Unix socket: {}", std::strerror(errno)));
      if (connect(fd, reinterpret_cast<const sockaddr*>(&address.where), address.size) == 0) {
        peers_.push_back({.fd = fd, .rank = 0, .who = {}, .in = {}});
        break;
      }
      const int why = errno;
      close(fd);
      if (why != ECONNREFUSED && why != EAGAIN && why != EINTR) {
        throw TransportError(fmt::format("[start] cannot reach rank 0 on its Unix socket: {}", std::strerror(why)));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      call_on_wait();
    }
    LocalPeer& peer = peers_[0];
    socklen_t size = sizeof peer.who;
    if (getsockopt(peer.fd, SOL_SOCKET, SO_PEERCRED, &peer.who, &size) != 0 || peer.who.uid != geteuid()) {
      throw TransportError(
          fmt::format("[start] the socket of rank 0 belongs to user {}, not to this one", peer.who.uid));
    }
    const LocalHello hello{.tag = digest_of("hello", job_), .rank = rank_, .size = size_};
    send_bytes(peer, &hello, sizeof hello);
    (void)await_frame(peer);
  }

  // Receives one frame from every other rank on rank 0.
  void collect(char* all, std::size_t bytes) {
    std::vector<char> there(peers_.size(), 0);
    std::vector<LocalPeer> none;
    try {
      for (std::size_t missing = peers_.size(); missing > 0;) {
        wait_for_input(peers_, none);
        for (std::size_t i = 0; i < peers_.size(); ++i) {
          LocalPeer& peer = peers_[i];
          peer.read_all();
          LocalHead head;
          std::vector<char> payload;
          if (there[i] == 0 && peer.take_frame(head, payload)) {
            if (payload.size() != bytes)
              throw TransportError(fmt::format("{} sent {} bytes; expected {}", peer.name(), payload.size(), bytes));
            std::memcpy(all + static_cast<std::size_t>(peer.rank) * bytes, payload.data(), bytes);
            there[i] = 1;
            --missing;
          } else if (there[i] == 0) {
            require_open(peer);
          }
        }
      }
    } catch (const Error& error) {
      for (LocalPeer& peer : peers_) send_error(peer, error.what());
      throw;
    }
  }

  std::vector<char> await_frame(LocalPeer& peer) {
    std::vector<LocalPeer> none;
    for (;;) {
      LocalHead head;
      std::vector<char> payload;
      if (peer.take_frame(head, payload)) {
        if (head.error != 0) throw TransportError(std::string(payload.begin(), payload.end()));
        return payload;
      }
      require_open(peer);
      wait_for_input(peers_, none);
      peer.read_all();
    }
  }

  void require_open(LocalPeer& peer) const {
    if (!peer.closed) peer.read_all();
    if (peer.closed && peer.in.empty()) {
      throw TransportError(fmt::format("[start] {} ended before all ranks of the job were connected", peer.name()));
    }
  }

  void wait_for_input(const std::vector<LocalPeer>& peers, const std::vector<LocalPeer>& more) {
    std::vector<pollfd> watched;
    if (listener_ >= 0) watched.push_back({.fd = listener_, .events = POLLIN, .revents = 0});
    for (const LocalPeer& peer : peers) {
      if (!peer.closed) watched.push_back({.fd = peer.fd, .events = POLLIN, .revents = 0});
    }
    for (const LocalPeer& peer : more) watched.push_back({.fd = peer.fd, .events = POLLIN, .revents = 0});
    poll(watched.data(), watched.size(), kPollMilliseconds);
    call_on_wait();
  }

  void call_on_wait() {
    // Without this check, a rank whose launcher was killed could connect to the ranks of the next job.
    if (getppid() != parent_) {
      throw TransportError(fmt::format("[start] the process that started this rank (pid {}) has ended", parent_));
    }
    on_wait_();
  }

  void send_frame(LocalPeer& peer, std::uint32_t error, const void* data, std::size_t bytes) {
    const LocalHead head{.error = error, .bytes = static_cast<std::uint32_t>(bytes)};
    send_bytes(peer, &head, sizeof head);
    send_bytes(peer, data, bytes);
  }

  void send_bytes(const LocalPeer& peer, const void* data, std::size_t bytes) {
    const auto* from = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t sent = send(peer.fd, from, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) {
        from += sent;
        bytes -= static_cast<std::size_t>(sent);
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        pollfd room{.fd = peer.fd, .events = POLLOUT, .revents = 0};
        poll(&room, 1, kPollMilliseconds);
        call_on_wait();
      } else if (errno != EINTR) {
        throw TransportError(fmt::format("[start] {} ended before all ranks of the job were connected", peer.name()));
      }
    }
  }

  static void send_error(const LocalPeer& peer, const std::string& text) {
    const LocalHead head{.error = 1, .bytes = static_cast<std::uint32_t>(text.size())};
    std::string frame(reinterpret_cast<const char*>(&head), sizeof head);
    frame += text;
    (void)send(peer.fd, frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  std::string job_;
  int rank_;
  int size_;
  WaitCallback on_wait_;
  pid_t parent_;
  int listener_ = -1;
  std::vector<LocalPeer> peers_;  // on rank 0: all others in the order of their connection; elsewhere: rank 0
};

}  // namespace

std::unique_ptr<Transport> connect_local_ranks(const Launch& launch, WaitCallback on_wait) {
  init_sodium();
  auto transport = std::make_unique<LocalTransport>(launch, std::move(on_wait));
  transport->connect_all();
  return transport;
}

}  // namespace pleiad

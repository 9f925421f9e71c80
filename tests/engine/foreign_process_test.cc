// Foreign processes on the raw protocol: floods, half handshakes, garbage and recorded connections. None of them uses
// much memory of a rank, disturbs it or receives a reply.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <list>
#include <random>
#include <thread>

#include "core/process.h"
#include "engine/inproc.h"
#include "engine/listener.h"
#include "tests/engine/under_attack.h"
#include "tests/eventually.h"

namespace pleiad {

namespace {

constexpr std::int64_t kMostGrowth = std::int64_t{48} << 20;
// The sanitizers' allocators keep freed memory, so the resident memory is not meaningful.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMeasuresMemory = false;
#else
constexpr bool kMeasuresMemory = true;
#endif

std::int64_t resident_memory() {
  std::int64_t total = 0;
  std::int64_t resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

/// A TCP connection to a port of this machine.
class Stranger {
 public:
  explicit Stranger(int port, int flags = 0) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    (void)::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address);
  }
  ~Stranger() { ::close(socket_); }
  Stranger(Stranger&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}
  Stranger& operator=(Stranger&&) = delete;

  [[nodiscard]] int file() const { return socket_; }
  /// Returns the number of bytes sent, or -1 if the connection is closed or not open yet.
  ssize_t send(std::string_view bytes, int flags = 0) const {
    return ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | flags);
  }
  /// Returns all bytes that arrive until the other side closes the connection.
  std::string until_closed() const {
    const timeval limit{.tv_sec = 120, .tv_usec = 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    std::string all;
    char part[4096];
    for (;;) {
      const ssize_t got = ::recv(socket_, part, sizeof part, 0);
      if (got == 0 || (got < 0 && errno == ECONNRESET)) return all;
      if (got < 0) {
        ADD_FAILURE() << "the connection stays open";
        return all;
      }
      all.append(part, static_cast<std::size_t>(got));
    }
  }

 private:
  int socket_;
};

int port_of(const std::string& endpoint) { return std::stoi(endpoint.substr(endpoint.rfind(':') + 1)); }

std::string greeting(std::string_view mechanism) {
  std::string text("\xFF\0\0\0\0\0\0\0\0\x7F\3\0", 12);
  text += mechanism;
  text.resize(64);
  return text;
}

/// Returns the header of a long command of `bytes` bytes.
std::string command_head(std::uint64_t bytes) {
  std::string text("\6", 1);
  for (int shift = 56; shift >= 0; shift -= 8) text += static_cast<char>(bytes >> shift & 255);
  return text;
}

zmq::message_t bare_frame(FrameKind kind) {
  FrameHead head;
  head.kind = kind;
  head.rank = 0;
  return make_frame(head, 0);
}

/// Relays one connection to `to` and records the client's bytes.
class Recorder {
 public:
  explicit Recorder(int to) : to_(to), listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 1), 0);
    EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port = ntohs(address.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  /// Ends the connection and returns the record.
  std::string end() {
    stop_ = true;
    thread_.join();
    ::close(listener_);
    return record_;
  }
  int port = 0;

 private:
  void run() {
    const int client = ::accept(listener_, nullptr, nullptr);
    const Stranger server(to_);
    char bytes[65536];
    while (!stop_) {
      pollfd both[2] = {{client, POLLIN, 0}, {server.file(), POLLIN, 0}};
      (void)::poll(both, 2, 20);
      for (const int side : {0, 1}) {
        if (both[side].revents == 0) continue;
        const ssize_t got = ::recv(both[side].fd, bytes, sizeof bytes, 0);
        if (got <= 0) continue;
        if (side == 0) record_.append(bytes, static_cast<std::size_t>(got));
        (void)::send(both[1 - side].fd, bytes, static_cast<std::size_t>(got), MSG_NOSIGNAL);
      }
    }
    ::close(client);
  }
  int to_;
  int listener_;
  std::string record_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

/// The port of a rank, without a rank behind it.
struct Door {
  Door() {
    set_up_socket(router);
    keys.make_server(router);
    listener.emplace(context, router, std::vector<std::uint32_t>{INADDR_LOOPBACK});
  }
  zmq::context_t context;
  zmq::socket_t router{context, zmq::socket_type::router};
  TransportKeys keys{JobKey::random()};
  std::optional<Listener> listener;
};

}  // namespace

TEST(ForeignProcess, AFloodOfHandshakesUsesLittleMemory) {
  if (!kMeasuresMemory) GTEST_SKIP() << "the sanitizers' allocators keep freed memory";
  under_attack(
      [](const Target& target) {
        const std::int64_t before = resident_memory();
        std::int64_t most = before;
        const std::string bytes(256 * 1024, 'x');
        {
          // Most peers announce a command that is just short enough, some one of 200 MB. All send as much as the rank
          // accepts.
          struct Flood {
            Stranger stranger;
            std::string head;
            std::uint64_t left;
          };
          std::list<Flood> all;
          for (int i = 0; i < 300; ++i) {
            const std::uint64_t size = i % 10 == 0 ? 200'000'000 : kPartBytes - 1;
            all.push_back(
                {Stranger(port_of(target.endpoint), SOCK_NONBLOCK), greeting("CURVE") + command_head(size), size - 1});
          }
          const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
          while (std::chrono::steady_clock::now() < end) {
            for (Flood& flood : all) {
              if (!flood.head.empty()) {
                if (flood.stranger.send(flood.head, MSG_DONTWAIT) < 0) continue;
                flood.head.clear();
              }
              const ssize_t sent =
                  flood.stranger.send({bytes.data(), std::min<std::uint64_t>(flood.left, bytes.size())}, MSG_DONTWAIT);
              if (sent > 0) flood.left -= static_cast<std::uint64_t>(sent);
            }
            most = std::max(most, resident_memory());
            std::this_thread::yield();
          }
        }
        EXPECT_LT(most - before, kMostGrowth) << "bytes";
        zmq::context_t context;
        const TransportKeys keys(target.key);
        RpcConnection member(context, target.key, 0, 1, target.endpoint, &keys);
        EXPECT_TRUE(welcomed(member, 600'000)) << "after the flood everything is as before";
      },
      "encrypt");
}

TEST(ForeignProcess, APeerThatNeverReadsUsesLittleMemory) {
  if (!kMeasuresMemory) GTEST_SKIP() << "the sanitizers' allocators keep freed memory";
  // Without encryption, foreign processes receive replies.
  under_attack([](const Target& target) {
    const std::int64_t before = resident_memory();
    std::string ready("\5READY", 6);
    ready += std::string("\x0BSocket-Type\0\0\0\6DEALER", 22);
    const zmq::message_t ping = bare_frame(FrameKind::ping);
    std::string pings;
    for (int i = 0; i < 1000; ++i) {
      pings += std::string("\0", 1) + static_cast<char>(ping.size()) + ping.to_string();
    }
    const Stranger stranger(port_of(target.endpoint));
    (void)stranger.send(greeting("NULL") + std::string("\4", 1) + static_cast<char>(ready.size()) + ready);
    char byte = 0;
    for (std::string heard; heard.find("READY") == std::string::npos; heard += byte) {
      ASSERT_EQ(::recv(stranger.file(), &byte, 1, 0), 1);
    }
    std::int64_t most = before;
    for (int round = 0; round < 400; ++round) {
      for (std::string_view rest = pings; !rest.empty();) {
        const ssize_t sent = stranger.send(rest);
        ASSERT_GT(sent, 0) << std::strerror(errno) << " after round " << round;
        rest.remove_prefix(static_cast<std::size_t>(sent));
      }
      most = std::max(most, resident_memory());
    }
    EXPECT_LT(most - before, kMostGrowth) << "bytes";
  });
}

TEST(ForeignProcess, HalfHandshakesAndGarbageAreClosedWithoutAReply) {
  under_attack(
      [](const Target& target) {
        const int port = port_of(target.endpoint);
        std::mt19937_64 random(17);
        std::string noise(5000, '\0');
        for (char& byte : noise) byte = static_cast<char>(random());
        std::string hello("\5HELLO\1\0", 8);  // a command of CURVE with a box that nobody can open
        hello.resize(200, 'y');
        const std::string beginnings[] = {"",
                                          std::string("\xFF", 1),
                                          greeting("CURVE").substr(0, 40),
                                          greeting("CURVE"),
                                          greeting("NULL"),
                                          greeting("PLAIN"),
                                          greeting("GSSAPI"),
                                          greeting("CURVE") + std::string("\4", 1) + static_cast<char>(200) + hello,
                                          greeting("CURVE") + std::string("\4", 1) + static_cast<char>(200) + "\5HEL",
                                          greeting("CURVE") + command_head(~std::uint64_t{0}),
                                          greeting("CURVE") + noise,
                                          noise};
        std::list<Stranger> strangers;
        for (const std::string& beginning : beginnings) {
          strangers.emplace_back(port);
          (void)strangers.back().send(beginning);
        }
        for (const Stranger& stranger : strangers) {
          EXPECT_LE(stranger.until_closed().size(), 64U) << "more than ZeroMQ's greeting came";
        }
      },
      "encrypt");
}

TEST(ForeignProcess, AReplayedConnectionHasNoEffect) {
  under_attack(
      [](const Target& target) {
        Recorder recorder(port_of(target.endpoint));
        std::size_t acknowledged = 0;
        {
          zmq::context_t context;
          const TransportKeys keys(target.key);
          RpcConnection member(context, target.key, 0, 1, "tcp://127.0.0.1:" + std::to_string(recorder.port), &keys);
          ASSERT_TRUE(welcomed(member, 600'000));
          for (const std::int64_t value : {1, -1}) {  // the two adds cancel, but the first one alone would be visible
            zmq::message_t frame = add_request(member, member.next_sequence(), 1000);
            const std::vector<std::int64_t> deltas(1000, value);
            std::memcpy(body_of(frame).data() + sizeof(TableHead), deltas.data(), deltas.size() * sizeof(std::int64_t));
            ASSERT_TRUE(member.send(frame));
          }
          EXPECT_TRUE(eventually([&] {
            while (auto incoming = member.receive()) {
              acknowledged += incoming->frame.head.kind == FrameKind::reply && incoming->frame.head.status == 0 ? 1 : 0;
            }
            return acknowledged == 2;
          }));
        }
        const std::string record = recorder.end();
        ASSERT_GT(record.size(), 8000U) << "the add is in the record";
        // Replays the whole record, and the record without its last bytes, which cuts the second add.
        for (const std::size_t bytes : {record.size(), record.size() - 4000}) {
          const Stranger replay(port_of(target.endpoint));
          (void)replay.send(std::string_view(record).substr(0, bytes));
          (void)replay.until_closed();
        }
      },
      "encrypt");
}

TEST(ForeignProcess, TooManyHandshakesCloseThePortUntilSomeHaveEnded) {
  Door door;
  {
    std::list<Stranger> strangers;
    std::size_t left = 200;
    EXPECT_TRUE(eventually([&] {
      if (left > 0) {
        strangers.emplace_back(door.listener->port(), SOCK_NONBLOCK);
        --left;
      }
      (void)door.listener->update(now_ns());
      return door.listener->full();
    }));
  }
  EXPECT_TRUE(eventually([&] {
    (void)door.listener->update(now_ns());
    return !door.listener->full();
  }));
}

TEST(ForeignProcess, RefusalsAreLoggedTogetherAndRarely) {
  Door door;
  std::int64_t now = 1'000'000'000'000;
  std::size_t told = 0;
  int times = 0;
  const auto refuse = [&](std::size_t count) {
    std::list<Stranger> strangers;
    for (std::size_t i = 0; i < count; ++i) {
      strangers.emplace_back(door.listener->port());
      (void)strangers.back().send(greeting("CURVE") + command_head(~std::uint64_t{0}));
    }
    for (const Stranger& stranger : strangers) (void)stranger.until_closed();
  };
  const auto look = [&] {
    const std::size_t refused = door.listener->update(now);
    told += refused;
    times += refused > 0 ? 1 : 0;
  };
  refuse(3);
  EXPECT_TRUE(eventually([&] {
    look();
    return told >= 1;
  }));
  refuse(20);
  for (int i = 0; i < 20; ++i) look();
  EXPECT_EQ(times, 1) << "not again within ten seconds";
  now += 11'000'000'000;
  EXPECT_TRUE(eventually([&] {
    look();
    return times == 2;
  }));
  EXPECT_GE(told, 20U);
}

}  // namespace pleiad

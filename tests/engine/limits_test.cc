// Limits of a connection between hosts: proofs of both sides, chunks, a bounded number of them in flight, heartbeats.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <list>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "engine/inproc.h"
#include "engine/rpc_transport.h"
#include "session/core.h"
#include "table/request.h"
#include "table/table_service.h"
#include "tests/eventually.h"

namespace pleiad {

// An impostor that listens at the address of a process of the job. It receives neither a proof nor a request.
TEST(Transport, SendsNoProofToAServerWithoutTheKey) {
  zmq::context_t context;
  zmq::socket_t impostor(context, zmq::socket_type::router);
  set_up_socket(impostor);
  impostor.bind("tcp://127.0.0.1:*");
  impostor.set(zmq::sockopt::rcvtimeo, 120000);
  RpcConnection channel(context, JobKey::random(), 0, 1, impostor.get(zmq::sockopt::last_endpoint));
  const JobKey wrong = JobKey::random();
  std::int64_t now = 0;
  for (const bool proves : {false, true}) {
    channel.send_hello(now += 10'000'000'000);
    zmq::message_t connection;
    zmq::message_t message;
    ASSERT_TRUE(impostor.recv(connection).has_value());
    ASSERT_TRUE(impostor.recv(message).has_value());
    const auto hello = parse_frame({message.data<char>(), message.size()});
    ASSERT_TRUE(hello);
    EXPECT_EQ(hello->head.kind, FrameKind::hello);
    const auto reply = [&](FrameKind kind, std::span<const char> body) {
      FrameHead head = hello->head;
      head.kind = kind;
      zmq::message_t frame = make_frame(head, body.size());
      std::ranges::copy(body, body_of(frame).data());
      (void)impostor.send(zmq::buffer(connection.to_string()), zmq::send_flags::sndmore);
      (void)impostor.send(frame, zmq::send_flags::none);
    };
    if (proves) {
      Nonce client;
      std::memcpy(client.data(), hello->body.data(), client.size());
      const Nonce mine = random_nonce();
      const AuthTag proof = make_auth_tag(wrong, "server", client, mine, 0, 1);
      std::vector<char> body;
      for (const std::span<const char> part :
           {std::span<const char>(client), std::span<const char>(mine), std::span<const char>(proof)}) {
        body.insert(body.end(), part.begin(), part.end());
      }
      reply(FrameKind::challenge, body);
    }
    reply(FrameKind::accepted, {});
    reply(FrameKind::pong, {});  // once the caller has received this, it has read everything before it
    EXPECT_TRUE(eventually([&] { return channel.receive().has_value(); }));
    EXPECT_FALSE(channel.authenticated()) << (proves ? "a proof by another key" : "no proof");
  }
  // The impostor next receives another hello: no proof was sent to it.
  channel.send_hello(now += 10'000'000'000);
  zmq::message_t message;
  ASSERT_TRUE(impostor.recv(message).has_value());
  ASSERT_TRUE(impostor.recv(message).has_value());
  const auto next = parse_frame({message.data<char>(), message.size()});
  ASSERT_TRUE(next);
  EXPECT_EQ(next->head.kind, FrameKind::hello);
}

// A client sends a hello about once a second. If the round trip takes more than half of that, each reply comes after
// the next hello. The reply must still count, or no connection would ever be authenticated.
TEST(Transport, AcceptsAReplyThatArrivesAfterTheNextHello) {
  const JobKey key = JobKey::random();
  zmq::context_t context;
  zmq::socket_t server(context, zmq::socket_type::router);
  set_up_socket(server);
  server.bind("tcp://127.0.0.1:*");
  server.set(zmq::sockopt::rcvtimeo, 120000);
  RpcConnection channel(context, key, 0, 1, server.get(zmq::sockopt::last_endpoint));
  zmq::message_t connection;
  zmq::message_t message;
  const auto hear = [&](FrameKind expected) {
    EXPECT_TRUE(server.recv(connection).has_value() && server.recv(message).has_value());
    const auto frame = parse_frame({message.data<char>(), message.size()});
    EXPECT_TRUE(frame && frame->head.kind == expected);
    return frame.value_or(Frame{}).head;
  };
  const auto reply = [&](FrameHead head, FrameKind kind, std::span<const char> body) {
    head.kind = kind;
    zmq::message_t frame = make_frame(head, body.size());
    std::ranges::copy(body, body_of(frame).data());
    (void)server.send(zmq::buffer(connection.to_string()), zmq::send_flags::sndmore);
    (void)server.send(frame, zmq::send_flags::none);
  };
  channel.send_hello(10'000'000'000);
  const FrameHead head = hear(FrameKind::hello);
  Nonce client;
  std::memcpy(client.data(), message.data<char>() + sizeof(FrameHead), client.size());
  const Nonce mine = random_nonce();
  const AuthTag proof = make_auth_tag(key, "server", client, mine, 0, 1);
  std::vector<char> body(client.begin(), client.end());
  body.insert(body.end(), mine.begin(), mine.end());
  body.insert(body.end(), proof.begin(), proof.end());
  reply(head, FrameKind::challenge, body);
  reply(head, FrameKind::pong, {});  // follows the challenge, so its reply shows that the caller has read the challenge
  EXPECT_TRUE(eventually([&] { return channel.receive().has_value(); }));
  (void)hear(FrameKind::response);
  channel.send_hello(20'000'000'000);
  (void)hear(FrameKind::hello);
  reply(head, FrameKind::accepted, {});
  reply(head, FrameKind::pong, {});
  EXPECT_TRUE(eventually([&] { return channel.receive().has_value(); }));
  EXPECT_TRUE(channel.authenticated());
}

// Postpones requests until no more arrive, and records their number and sizes.
class Hesitant final : public RequestHandler {
 public:
  Hesitant(RequestHandler& real, RpcTransport& rpc) : real_(real), rpc_(rpc) {}

  bool handle(const IncomingRequest& request, FunctionRef<std::span<char>(std::size_t)>) override {
    held_.push_back({request, {request.body.begin(), request.body.end()}});
    ++requests;
    most = std::max(most, held_.size());
    longest = std::max(longest, request.body.size());
    quiet_ = 0;
    return false;
  }
  void tick() override {
    if (++quiet_ < 3) return;
    quiet_ = 0;
    for (Held& held : std::exchange(held_, {})) {
      std::vector<char> answer;
      held.request.body = held.body;
      ASSERT_TRUE(real_.handle(held.request, [&](std::size_t bytes) {
        answer.resize(bytes);
        longest = std::max(longest, bytes);
        return std::span(answer);
      }));
      rpc_.answer(held.request.back, nullptr, answer);
    }
  }
  [[nodiscard]] bool unanswered() const override { return !held_.empty(); }

  std::size_t requests = 0, most = 0, longest = 0;

 private:
  struct Held {
    IncomingRequest request;
    std::vector<char> body;
  };
  RequestHandler& real_;
  RpcTransport& rpc_;
  std::vector<Held> held_;
  int quiet_ = 0;
};

constexpr std::int64_t kMany = 6'000'000;  // 24 MB, half of them on the other host

TEST(Transport, SendsALongCallInChunksWithFewInFlight) {
  const auto rank = [](Session& session) {
    const ArrayTable table = session.create_array(kMany);
    RpcTransport& rpc = *session.core().engine().rpc();
    RequestHandler& service = *session.core().context().service;
    Hesitant hesitant(service, rpc);
    if (session.rank() == 1) rpc.set_handler(&hesitant);
    session.barrier();
    if (session.rank() == 0) {
      const std::vector<float> ones(kMany, 1);
      std::vector<float> out(kMany);
      table.add(ones);
      table.get(out);
      EXPECT_EQ(std::ranges::count(out, 1.0F), kMany);
    }
    session.barrier();
    if (session.rank() != 1) return;
    rpc.set_handler(&service);
    EXPECT_GT(hesitant.requests, 2 * RpcTransport::kWindow);
    EXPECT_LE(hesitant.most, RpcTransport::kWindow);
    EXPECT_LE(hesitant.longest, RpcTransport::kWholeBytes + sizeof(TableHead));
  };
  SessionOptions options;
  options.log_level = "off";
  options.split_hosts = 2;
  options.host_timeout = 300;
  run_cluster(2, rank, options);
}

// A socket on loopback.
class Socket {
 public:
  explicit Socket(int file) : file_(file) {}
  Socket(Socket&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  Socket& operator=(Socket&&) = delete;
  ~Socket() {
    if (file_ >= 0) close(file_);
  }
  [[nodiscard]] int file() const { return file_; }

  static Socket listening(int& port) {
    Socket made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = at(0);
    socklen_t length = sizeof address;
    EXPECT_EQ(bind(made.file_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(listen(made.file_, 64), 0);
    EXPECT_EQ(getsockname(made.file_, reinterpret_cast<sockaddr*>(&address), &length), 0);
    port = ntohs(address.sin_port);
    return made;
  }
  static Socket connected(int port) {
    Socket made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in address = at(port);
    EXPECT_EQ(connect(made.file_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    return made;
  }

 private:
  static sockaddr_in at(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  int file_;
};

// A repeated request has no effect on any kind of table.
TEST(Transport, ARepeatedRequestChangesNoTable) {
  const auto rank = [](Session& session) {
    TableOptions options;
    options.dtype = DType::int64;
    const ArrayTable array = session.create_array(1000, options);
    const MatrixTable matrix = session.create_matrix(40'000, 2, options);  // so long that both hosts hold a part
    const SparseTable sparse = session.create_sparse(2, options);
    session.barrier();
    if (session.rank() == 1) {
      RequestHandler& service = *session.core().context().service;
      std::vector<char> answer;
      const auto room = [&](std::size_t bytes) {
        answer.resize(bytes);
        return std::span(answer);
      };
      // For each table: an operation with its body, and one that reads the same values back.
      const auto ask = [&](std::uint32_t table, TableOperation operation, bool repeated, std::int64_t count,
                           const std::vector<std::int64_t>& body) {
        TableHead head;
        head.table = table;
        head.count = count;
        std::vector<std::int64_t> words(sizeof head / sizeof(std::int64_t));
        std::memcpy(words.data(), &head, sizeof head);
        words.insert(words.end(), body.begin(), body.end());
        answer.clear();
        EXPECT_TRUE(
            service.handle({.from = 0,
                            .operation = static_cast<std::uint32_t>(operation),
                            .repeated = repeated,
                            .body = {reinterpret_cast<const char*>(words.data()), words.size() * sizeof words[0]},
                            .back = {}},
                           room));
        std::vector<std::int64_t> numbers(answer.size() / sizeof(std::int64_t));
        if (!answer.empty()) std::memcpy(numbers.data(), answer.data(), answer.size());
        return numbers;
      };
      using Op = TableOperation;
      for (const std::uint32_t table : {1U, 2U}) {
        for (const bool repeated : {false, true, true}) (void)ask(table, Op::add_rows, repeated, 1, {5, 7, 8});
        EXPECT_EQ(ask(table, Op::get_rows, false, 1, {5}), (std::vector<std::int64_t>{7, 8})) << table;
        EXPECT_EQ(ask(table, Op::get_rows, true, 1, {5}), (std::vector<std::int64_t>{7, 8})) << "only reads";
      }
      // A short array is stored on one host, in one stripe.
      if (array.shard(1).second > array.shard(1).first) {
        const std::vector<std::int64_t> threes(1000, 3);
        for (const bool repeated : {false, true}) (void)ask(0, Op::add, repeated, 1, threes);
        EXPECT_EQ(ask(0, Op::add_get, false, 1, threes), std::vector<std::int64_t>(1000, 6));
        EXPECT_EQ(ask(0, Op::add_get, true, 1, threes), std::vector<std::int64_t>(1000, 6));
      }
    }
    session.barrier();
  };
  SessionOptions options;
  options.log_level = "off";
  options.split_hosts = 2;
  run_cluster(2, rank, options);
}

// A host without power does not close its connections. A connection that does not answer ZeroMQ's heartbeats is closed.
TEST(Transport, ClosesASilentConnection) {
  zmq::context_t context;
  zmq::socket_t router(context, zmq::socket_type::router);
  set_up_socket(router);
  router.bind("tcp://127.0.0.1:*");
  const std::string bound = router.get(zmq::sockopt::last_endpoint);
  // ZMTP 3.1: the greeting and READY of a dealer, and never a PONG.
  std::string words("\xFF\0\0\0\0\0\0\0\0\x7F\x03\x01NULL", 16);
  words.resize(64);
  words += std::string(
      "\x04\x1C\x05READY\x0BSocket-Type\0\0\0\x06"
      "DEALER",
      30);
  std::string heard;
  // If the machine pauses for seconds, the connection is closed during the handshake. If so, try again.
  for (int attempt = 0; attempt < 20 && heard.find("PING") == std::string::npos; ++attempt) {
    heard.clear();
    const Socket silent = Socket::connected(std::stoi(bound.substr(bound.rfind(':') + 1)));
    ASSERT_EQ(write(silent.file(), words.data(), words.size()), static_cast<ssize_t>(words.size()));
    const timeval patience{.tv_sec = 120, .tv_usec = 0};
    setsockopt(silent.file(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    char buffer[256];
    ssize_t got = 0;
    while ((got = read(silent.file(), buffer, sizeof buffer)) > 0) heard.append(buffer, static_cast<std::size_t>(got));
    ASSERT_FALSE(got < 0 && errno == EAGAIN) << "after " << heard.size() << " bytes it was still open";
  }
  EXPECT_NE(heard.find("READY"), std::string::npos) << "it was not even taken for a connection";
  EXPECT_NE(heard.find("PING"), std::string::npos) << "it was closed without a question";
}

// Two hosts whose RPC transports the test starts itself, so that it can relay the bytes between them.
struct Pair {
  explicit Pair(double host_timeout) {
    SessionOptions options;
    options.timeout = 240;
    options.host_timeout = host_timeout;
    options.log_level = "off";
    const std::vector<RankLocation> places = {{.host = 0, .local = 0, .name = "left"},
                                              {.host = 1, .local = 0, .name = "right"}};
    const auto wire = std::make_shared<InprocTransport>(2);
    for (int r = 0; r < 2; ++r) {
      engines.push_back(
          std::make_shared<InprocEngine>(options, r, places, std::make_shared<InprocHost>(1), wire, nullptr));
      transports.push_back(std::make_unique<RpcTransport>(*engines.back(), key, true));
    }
  }
  /// Rank 0 connects to rank 1 at `port`.
  void start(int port) {
    Addresses other = transports[1]->addresses();
    transports[1]->start({transports[0]->addresses(), other});
    other.port = port;
    transports[0]->start({transports[0]->addresses(), other});
  }
  /// Sends `count` numbered requests of `bytes` from rank 0 to rank 1 and waits for all replies.
  void ask(std::size_t count, std::size_t bytes) {
    const OutgoingRequest part{.to = 1, .operation = 1, .idempotent = false, .bytes = bytes};
    std::size_t answered = 0;
    transports[0]->exchange(
        {.call = Call::add,
         .count = count,
         .request = [&](std::size_t) { return part; },
         .fill = [](std::size_t item, std::span<char> to) { std::memcpy(to.data(), &item, sizeof item); },
         .take = [&](std::size_t, std::span<const char>) { ++answered; },
         .meanwhile = [] {}});
    EXPECT_EQ(answered, count);
  }

  JobKey key = JobKey::random();
  std::vector<std::shared_ptr<InprocEngine>> engines;
  std::vector<std::unique_ptr<RpcTransport>> transports;
};

TEST(Transport, NamesAHostThatAcceptsConnectionsAndNeverReplies) {
  int port = 0;
  const Socket mute = Socket::listening(port);
  Pair pair(1);
  pair.start(port);
  try {
    pair.ask(1, 100);
    ADD_FAILURE() << "nobody has answered";
  } catch (const TransportError& error) {
    EXPECT_NE(std::string(error.what()).find("rank 1 (on right"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("has not answered for"), std::string::npos) << error.what();
  }
}

// Relays bytes between rank 0 and rank 1 and breaks every connection after some of them, in the middle of frames.
class Breaker {
 public:
  Breaker(int to, int breaks) : to_(to), left_(breaks), listener_(Socket::listening(port)) {
    thread_ = std::thread([this] { run(); });
  }
  ~Breaker() {
    stop_ = true;
    thread_.join();
  }
  int port = 0;
  [[nodiscard]] int left() const { return left_; }

 private:
  struct Link {
    Socket here, there;
    std::size_t until;
  };
  void run() {
    std::mt19937_64 random(3);
    std::list<Link> links;
    std::vector<char> buffer(64 * 1024);
    while (!stop_) {
      std::vector<pollfd> polled = {{listener_.file(), POLLIN, 0}};
      for (const Link& link : links) {
        polled.push_back({link.here.file(), POLLIN, 0});
        polled.push_back({link.there.file(), POLLIN, 0});
      }
      (void)poll(polled.data(), polled.size(), 20);
      std::size_t at = 1;
      for (auto link = links.begin(); link != links.end(); at += 2) {
        const bool whole = carry(polled[at], link->there.file(), buffer, link->until) &&
                           carry(polled[at + 1], link->here.file(), buffer, link->until);
        link = whole ? std::next(link) : links.erase(link);
      }
      if ((polled[0].revents & POLLIN) != 0) {
        Socket here(accept(listener_.file(), nullptr, nullptr));
        links.push_back({std::move(here), Socket::connected(to_), 50'000 + random() % 1'500'000});
      }
    }
  }
  /// Returns false once either side has closed the connection.
  bool carry(const pollfd& from, int to, std::vector<char>& buffer, std::size_t& until) {
    if (from.revents == 0) return true;
    const ssize_t got = read(from.fd, buffer.data(), buffer.size());
    if (got <= 0) return false;
    auto count = static_cast<std::size_t>(got);
    const bool breaks = left_ > 0 && count >= until;
    if (breaks) {
      count = until;
      --left_;
    }
    until -= std::min(until, count);
    for (std::size_t done = 0; done < count;) {
      const ssize_t put = send(to, buffer.data() + done, count - done, MSG_NOSIGNAL);
      if (put <= 0) return false;
      done += static_cast<std::size_t>(put);
    }
    return !breaks;
  }

  int to_;
  std::atomic<int> left_;
  Socket listener_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

TEST(Transport, BrokenConnectionsNeitherLoseNorRepeatARequest) {
  class Counter final : public RequestHandler {
   public:
    bool handle(const IncomingRequest& request, FunctionRef<std::span<char>(std::size_t)>) override {
      std::size_t item = 0;
      std::memcpy(&item, request.body.data(), sizeof item);
      const std::lock_guard lock(mutex);
      if (!request.repeated) ++times[item];
      return true;
    }
    void tick() override {}
    [[nodiscard]] bool unanswered() const override { return false; }
    std::mutex mutex;
    std::map<std::size_t, int> times;  // guarded by mutex
  } counter;
  constexpr std::size_t kItems = 300;
  Pair pair(120);
  pair.transports[1]->set_handler(&counter);
  Breaker breaker(pair.transports[1]->addresses().port, 8);
  pair.start(breaker.port);
  for (int round = 0; breaker.left() > 0 && round < 100; ++round) {
    {
      const std::lock_guard lock(counter.mutex);
      counter.times.clear();
    }
    pair.ask(kItems, 40'000);
    const std::lock_guard lock(counter.mutex);
    ASSERT_EQ(counter.times.size(), kItems);
    for (const auto& [item, times] : counter.times) ASSERT_EQ(times, 1) << "request " << item;
  }
  EXPECT_EQ(breaker.left(), 0) << "nothing was broken: nothing was tried";
  pair.transports[1]->set_handler(nullptr);
  for (auto& rpc : pair.transports) rpc->stop();
}

}  // namespace pleiad

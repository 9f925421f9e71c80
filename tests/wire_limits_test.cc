// What a connection between hosts is held to: proofs of both sides, chunks, few of them under way, heartbeats.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "engine/messenger.h"
#include "session/core.h"
#include "table/request.h"
#include "table/table_service.h"
#include "tests/eventually.h"

namespace pleiad {

// An impostor that listens where a process of the job did: it gets neither a proof nor a request.
TEST(Wire, AServerWithoutTheKeyIsNotSpokenTo) {
  zmq::context_t context;
  zmq::socket_t impostor(context, zmq::socket_type::router);
  set_up_socket(impostor);
  impostor.bind("tcp://127.0.0.1:*");
  impostor.set(zmq::sockopt::rcvtimeo, 20000);
  Channel channel(context, JobKey::random(), 0, 1, impostor.get(zmq::sockopt::last_endpoint));
  const JobKey wrong = JobKey::random();
  std::int64_t now = 0;
  for (const bool proves : {false, true}) {
    channel.greet(now += 10'000'000'000);
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
      const Proof proof = make_proof(wrong, "server", client, mine, 0, 1);
      std::vector<char> body;
      for (const std::span<const char> part :
           {std::span<const char>(client), std::span<const char>(mine), std::span<const char>(proof)}) {
        body.insert(body.end(), part.begin(), part.end());
      }
      reply(FrameKind::challenge, body);
    }
    reply(FrameKind::welcome, {});
    reply(FrameKind::pong, {});  // which the caller sees: all before it was looked at
    EXPECT_TRUE(eventually([&] { return channel.receive().has_value(); }));
    EXPECT_FALSE(channel.welcomed()) << (proves ? "a proof by another key" : "no proof");
  }
  // The next thing that it hears is another hello: no proof was sent to it.
  channel.greet(now += 10'000'000'000);
  zmq::message_t message;
  ASSERT_TRUE(impostor.recv(message).has_value());
  ASSERT_TRUE(impostor.recv(message).has_value());
  const auto next = parse_frame({message.data<char>(), message.size()});
  ASSERT_TRUE(next);
  EXPECT_EQ(next->head.kind, FrameKind::hello);
}

// Puts requests off until no more come, and notes how many and how long they are.
class Hesitant final : public RequestHandler {
 public:
  Hesitant(RequestHandler& real, Messenger& messenger) : real_(real), messenger_(messenger) {}

  bool handle(const Request& request, FunctionRef<std::span<char>(std::size_t)>) override {
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
      messenger_.answer(held.request.back, nullptr, answer);
    }
  }
  [[nodiscard]] bool unanswered() const override { return !held_.empty(); }

  std::size_t requests = 0, most = 0, longest = 0;

 private:
  struct Held {
    Request request;
    std::vector<char> body;
  };
  RequestHandler& real_;
  Messenger& messenger_;
  std::vector<Held> held_;
  int quiet_ = 0;
};

constexpr std::int64_t kMany = 6'000'000;  // 24 MB, half of them on the other host

TEST(Wire, ALongCallGoesInChunksOfWhichFewAreUnderWay) {
  const auto rank = [](Session& session) {
    const ArrayTable table = session.create_array(kMany);
    Messenger& messenger = *session.core().engine().messenger();
    RequestHandler& service = *session.core().context().service;
    Hesitant hesitant(service, messenger);
    if (session.rank() == 1) messenger.set_handler(&hesitant);
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
    messenger.set_handler(&service);
    EXPECT_GT(hesitant.requests, 2 * Messenger::kWindow);
    EXPECT_LE(hesitant.most, Messenger::kWindow);
    EXPECT_LE(hesitant.longest, Messenger::kWholeBytes + sizeof(TableHead));
  };
  SessionOptions options;
  options.log_level = "off";
  options.split_hosts = 2;
  run_cluster(2, rank, options);
}

// A host without power sends no end of its connections: one that does not answer ZeroMQ's heartbeats is closed.
TEST(Wire, AConnectionThatFallsSilentIsClosed) {
  zmq::context_t context;
  zmq::socket_t router(context, zmq::socket_type::router);
  set_up_socket(router);
  router.bind("tcp://127.0.0.1:*");
  const std::string bound = router.get(zmq::sockopt::last_endpoint);
  const int silent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_GE(silent, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(bound.substr(bound.rfind(':') + 1))));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(silent, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  // ZMTP 3.1: the greeting and READY of a dealer, and never a PONG.
  std::string words("\xFF\0\0\0\0\0\0\0\0\x7F\x03\x01NULL", 16);
  words.resize(64);
  words += std::string(
      "\x04\x1C\x05READY\x0BSocket-Type\0\0\0\x06"
      "DEALER",
      30);
  ASSERT_EQ(write(silent, words.data(), words.size()), static_cast<ssize_t>(words.size()));
  const timeval patience{.tv_sec = 60, .tv_usec = 0};
  setsockopt(silent, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  std::string heard;
  char buffer[256];
  ssize_t got = 0;
  while ((got = read(silent, buffer, sizeof buffer)) > 0) heard.append(buffer, static_cast<std::size_t>(got));
  EXPECT_EQ(got, 0) << "after " << heard.size() << " bytes it was still open";
  EXPECT_NE(heard.find("READY"), std::string::npos) << "it was not even taken for a connection";
  EXPECT_NE(heard.find("PING"), std::string::npos) << "it was closed without a question";
  close(silent);
}

}  // namespace pleiad

// Input from the network: garbage, parts of frames, replayed frames, foreign processes without the key, and connections
// that break during a frame.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "engine/inproc.h"
#include "engine/rpc_transport.h"
#include "session/core.h"
#include "table/request.h"
#include "tests/engine/under_attack.h"
#include "tests/eventually.h"

namespace pleiad {

namespace {

zmq::socket_t dealer(zmq::context_t& context, const std::string& endpoint) {
  zmq::socket_t socket(context, zmq::socket_type::dealer);
  set_up_socket(socket);
  socket.connect(endpoint);
  return socket;
}

// A peer with its own implementation of ZeroMQ's protocol (ZMTP 3.0), without a security mechanism, which claims a
// routing id of its choice.
class RawPeer {
 public:
  RawPeer(const std::string& endpoint, const std::string& id) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1))));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return;
    const timeval limit{.tv_sec = 10, .tv_usec = 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    std::string greeting("\xFF\0\0\0\0\0\0\0\0\x7F\3\0NULL", 16);
    greeting.resize(64);
    std::string ready("\5READY", 6);
    ready += property("Socket-Type", "DEALER") + property("Identity", id);
    send(greeting);
    send(std::string("\4", 1) + static_cast<char>(ready.size()) + ready);
  }
  ~RawPeer() { ::close(socket_); }
  RawPeer(const RawPeer&) = delete;
  RawPeer& operator=(const RawPeer&) = delete;

  /// A message of one part.
  void send_message(std::span<const char> bytes) {
    std::string text("\2", 1);  // a long frame
    for (int shift = 56; shift >= 0; shift -= 8) text += static_cast<char>(bytes.size() >> shift & 255);
    send(text + std::string(bytes.begin(), bytes.end()));
  }
  /// Returns all bytes until the other side closes the connection, or nothing if it stays open for ten seconds.
  std::optional<std::string> until_closed() {
    std::string all;
    char part[256];
    for (;;) {
      const ssize_t got = ::recv(socket_, part, sizeof part, 0);
      if (got == 0 || (got < 0 && errno == ECONNRESET)) return all;
      if (got < 0) return std::nullopt;
      all.append(part, static_cast<std::size_t>(got));
    }
  }

 private:
  static std::string property(const std::string& name, const std::string& value) {
    std::string text(1, static_cast<char>(name.size()));
    text += name;
    text.append(3, '\0');
    text += static_cast<char>(value.size());
    return text + value;
  }
  void send(const std::string& text) { (void)::send(socket_, text.data(), text.size(), MSG_NOSIGNAL); }

  int socket_ = -1;
};

// Returns the next reply.
std::optional<ReceivedFrame> answer(zmq::socket_t& socket, int milliseconds = 600000) {
  socket.set(zmq::sockopt::rcvtimeo, milliseconds);
  ReceivedFrame incoming;
  if (!socket.recv(incoming.message).has_value()) return std::nullopt;
  const auto frame = parse_frame({incoming.message.data<char>(), incoming.message.size()});
  if (!frame) return std::nullopt;
  incoming.frame = *frame;
  return incoming;
}

}  // namespace

TEST(Transport, GarbageAndPartsOfFramesAreNotFrames) {
  std::mt19937_64 random(7);
  const FrameHead good;
  for (int round = 0; round < 20000; ++round) {
    std::vector<char> bytes(random() % 200);
    for (char& byte : bytes) byte = static_cast<char>(random());
    if (round % 2 == 0 && !bytes.empty()) std::memcpy(bytes.data(), &good, std::min(bytes.size(), sizeof good));
    const auto frame = parse_frame(bytes);
    EXPECT_EQ(frame ? frame->body.size() + sizeof good : bytes.size(), bytes.size());
    EXPECT_FALSE(frame && bytes.size() < sizeof good);
  }
}

TEST(Transport, GarbageOnTheNetworkDisturbsNoRank) {
  under_attack([](const Target& target) {
    zmq::context_t context;
    zmq::socket_t socket = dealer(context, target.endpoint);
    std::mt19937_64 random(11);
    for (int round = 0; round < 3000; ++round) {
      FrameHead head;
      head.kind = static_cast<FrameKind>(1 + random() % 12);
      head.rank = static_cast<std::int32_t>(random() % 4) - 1;
      head.operation = static_cast<std::uint32_t>(random() % 10);
      head.sequence = random() % 5;
      zmq::message_t frame = make_frame(head, random() % 300);
      for (char& byte : body_of(frame)) byte = static_cast<char>(random());
      if (round % 3 == 0) frame.rebuild(frame.size() % 37);  // a part of a frame, with random content
      const bool two_parts = round % 7 == 0;
      if (two_parts) (void)socket.send(zmq::message_t(5), zmq::send_flags::sndmore | zmq::send_flags::dontwait);
      (void)socket.send(frame, zmq::send_flags::dontwait);
      if (round % 100 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
}

TEST(Transport, InvalidRequestsOfAnAuthenticatedClientGetErrors) {
  under_attack([](const Target& target) {
    zmq::context_t context;
    RpcConnection channel(context, target.key, 0, 1, target.endpoint);
    ASSERT_TRUE(welcomed(channel, 600000));
    std::mt19937_64 random(13);
    for (std::uint64_t sequence = 1; sequence <= 2000; ++sequence) {
      FrameHead head = channel.head(FrameKind::request);
      head.sequence = sequence;
      // The service must refuse every add to an invalid stripe, to rows of an array, and to a table or shard that does
      // not exist. It must also refuse clock calls on a table that has no clock.
      head.operation = static_cast<std::uint32_t>(random() % 12);
      TableHead table;
      table.table = static_cast<std::uint32_t>(random() % 3);
      table.shard = static_cast<std::uint32_t>(random() % 3);
      table.worker = static_cast<std::int32_t>(random() % 5) - 1;
      table.call = static_cast<Call>(random() % 20);
      table.first = static_cast<std::int64_t>(random()) >> (random() % 64);
      table.count = static_cast<std::int64_t>(random()) >> (random() % 64);
      if (head.operation == 1 || head.operation == 3) table.first = 1 + static_cast<std::int64_t>(random() % 9);
      zmq::message_t frame = make_frame(head, random() % 400);
      for (char& byte : body_of(frame)) byte = static_cast<char>(random());
      std::memcpy(body_of(frame).data(), &table, std::min(body_of(frame).size(), sizeof table));
      (void)channel.send(frame);
      if (sequence % 50 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      while (channel.receive()) {
      }
    }
  });
}

TEST(Transport, OnlyProcessesOfTheJobCompleteTheHandshakeOfAnEncryptedTransport) {
  under_attack(
      [](const Target& target) {
        zmq::context_t context;
        const TransportKeys right(target.key);
        const TransportKeys wrong(JobKey::random());
        TransportKeys half = wrong;  // knows the servers' key, but no client's key
        half.server_public = right.server_public;
        const TransportKeys* const strangers[] = {nullptr, &wrong, &half};
        for (const TransportKeys* keys : strangers) {
          RpcConnection stranger(context, target.key, 0, 1, target.endpoint, keys);
          EXPECT_FALSE(welcomed(stranger, 1500));
        }
        RpcConnection member(context, target.key, 0, 1, target.endpoint, &right);
        EXPECT_TRUE(welcomed(member, 600'000));
      },
      "encrypt");
}

TEST(Transport, AClaimedRoutingIdGivesAForeignProcessNoAccess) {
  under_attack(
      [](const Target& target) {
        // The form of ids that ZeroMQ generates. An open router would abort when a second connection gets the same id.
        for (std::uint32_t number = 0; number < 60; ++number) {
          std::string id(1, '\0');
          for (const std::uint32_t shift : {24U, 16U, 8U, 0U})
            id += static_cast<char>((0x6B8B4567U + number) >> shift & 255U);
          RawPeer peer(target.endpoint, id);
          FrameHead head;
          head.kind = FrameKind::hello;
          const Nonce nonce = random_nonce();
          const zmq::message_t hello = [&] {
            zmq::message_t frame = make_frame(head, nonce.size());
            std::memcpy(body_of(frame).data(), nonce.data(), nonce.size());
            return frame;
          }();
          peer.send_message({hello.data<char>(), hello.size()});
          if (number % 20 != 0) continue;
          const auto all = peer.until_closed();
          ASSERT_TRUE(all.has_value()) << "the connection stays open";
          EXPECT_LE(all->size(), 64U) << "more than ZeroMQ's greeting came";
        }
        zmq::context_t context;
        const TransportKeys keys(target.key);
        std::vector<std::unique_ptr<RpcConnection>> members;
        for (int i = 0; i < 30; ++i) {
          members.push_back(std::make_unique<RpcConnection>(context, target.key, 0, 1, target.endpoint, &keys));
          EXPECT_TRUE(welcomed(*members.back(), 600'000));
        }
      },
      "encrypt");
}

TEST(Transport, AForeignProcessWithoutTheKeyIsRefused) {
  under_attack([](const Target& target) {
    zmq::context_t context;
    RpcConnection stranger(context, JobKey::random(), 0, 1, target.endpoint);
    EXPECT_FALSE(welcomed(stranger, 1500));
    // A peer is refused, too, if it trusts the other side and answers the challenge with a proof by another key.
    zmq::socket_t forger = dealer(context, target.endpoint);
    const Nonce nonce = random_nonce();
    FrameHead forged;
    forged.kind = FrameKind::hello;
    forged.rank = 0;
    zmq::message_t hello = make_frame(forged, nonce.size());
    std::memcpy(body_of(hello).data(), nonce.data(), nonce.size());
    (void)forger.send(hello, zmq::send_flags::none);
    const auto challenge = answer(forger);
    ASSERT_TRUE(challenge && challenge->frame.head.kind == FrameKind::challenge);
    Nonce theirs;
    std::memcpy(theirs.data(), challenge->frame.body.data() + nonce.size(), theirs.size());
    const AuthTag proof = make_auth_tag(JobKey::random(), "client", nonce, theirs, 0, 1);
    forged.kind = FrameKind::response;
    zmq::message_t proves = make_frame(forged, nonce.size() + proof.size());
    std::memcpy(body_of(proves).data(), nonce.data(), nonce.size());
    std::memcpy(body_of(proves).data() + nonce.size(), proof.data(), proof.size());
    (void)forger.send(proves, zmq::send_flags::none);
    forged.kind = FrameKind::ping;  // the first reply is to this ping: the proof got no reply
    zmq::message_t ping = make_frame(forged, 0);
    (void)forger.send(ping, zmq::send_flags::none);
    const auto refused = answer(forger);
    ASSERT_TRUE(refused);
    EXPECT_EQ(refused->frame.head.kind, FrameKind::unauthenticated);
    // A peer that sends requests without a handshake is refused, too.
    zmq::socket_t socket = dealer(context, target.endpoint);
    FrameHead head;
    head.rank = 0;
    head.sequence = 1;
    head.operation = static_cast<std::uint32_t>(TableOperation::add);
    zmq::message_t frame = make_frame(head, 100);
    (void)socket.send(frame, zmq::send_flags::none);
    const auto back = answer(socket);
    ASSERT_TRUE(back);
    EXPECT_EQ(back->frame.head.kind, FrameKind::unauthenticated);
  });
}

TEST(Transport, AProofIsValidOnItsOwnConnectionOnly) {
  under_attack([](const Target& target) {
    zmq::context_t context;
    zmq::socket_t first = dealer(context, target.endpoint);
    const Nonce nonce = random_nonce();
    FrameHead head;
    head.kind = FrameKind::hello;
    head.rank = 0;
    zmq::message_t hello = make_frame(head, nonce.size());
    std::memcpy(body_of(hello).data(), nonce.data(), nonce.size());
    (void)first.send(hello, zmq::send_flags::none);
    const auto challenge = answer(first);
    ASSERT_TRUE(challenge && challenge->frame.head.kind == FrameKind::challenge);
    Nonce theirs;
    std::memcpy(theirs.data(), challenge->frame.body.data() + nonce.size(), theirs.size());
    const AuthTag proof = make_auth_tag(target.key, "client", nonce, theirs, 0, 1);
    const auto prove = [&](zmq::socket_t& socket, int milliseconds) {
      head.kind = FrameKind::response;
      zmq::message_t frame = make_frame(head, nonce.size() + proof.size());
      std::memcpy(body_of(frame).data(), nonce.data(), nonce.size());
      std::memcpy(body_of(frame).data() + nonce.size(), proof.data(), proof.size());
      (void)socket.send(frame, zmq::send_flags::none);
      return answer(socket, milliseconds);
    };
    zmq::socket_t second = dealer(context, target.endpoint);
    EXPECT_FALSE(prove(second, 700)) << "a recorded proof must be worth nothing";
    const auto welcome = prove(first, 600000);
    ASSERT_TRUE(welcome);
    EXPECT_EQ(welcome->frame.head.kind, FrameKind::accepted);
  });
}

TEST(Transport, ARepeatedRequestIsCarriedOutOnce) {
  under_attack([](const Target& target) {
    // Sends adds of zeros over its own connection, each many times: every one is acknowledged, whether or not it was a
    // repeat. Then sends ones and minus ones, of which a repeat would be visible.
    zmq::context_t context;
    RpcConnection channel(context, target.key, 0, 1, target.endpoint);
    ASSERT_TRUE(welcomed(channel, 600000));
    std::uint64_t sequence = 0;
    std::size_t acknowledged = 0;
    for (const std::int64_t value : {1, -1, 2, -2, 3, -3}) {
      ++sequence;
      for (int copy = 0; copy < 1 + static_cast<int>(sequence); ++copy) {
        zmq::message_t frame = add_request(channel, sequence, 1000);
        std::vector<std::int64_t> deltas(1000, value);
        std::memcpy(body_of(frame).data() + sizeof(TableHead), deltas.data(), deltas.size() * sizeof(std::int64_t));
        ASSERT_TRUE(channel.send(frame));
      }
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(600);
    while (acknowledged < 27 && std::chrono::steady_clock::now() < end) {
      while (auto incoming = channel.receive()) {
        if (incoming->frame.head.kind != FrameKind::reply) continue;
        EXPECT_EQ(incoming->frame.head.status, 0);
        ++acknowledged;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    EXPECT_EQ(acknowledged, 27U) << "2 + 3 + 4 + 5 + 6 + 7";
  });
}

TEST(Transport, AReplayedFrameGetsNoReply) {
  under_attack([](const Target& target) {
    zmq::context_t context;
    RpcConnection channel(context, target.key, 0, 1, target.endpoint);
    ASSERT_TRUE(welcomed(channel, 600000));
    const auto ask = [&](std::uint64_t sequence) {
      zmq::message_t frame = add_request(channel, sequence, 1000);
      (void)channel.send(frame);
    };
    int replies = 0;
    const auto received = [&] {
      while (channel.receive()) ++replies;
      return replies;
    };
    ask(1);
    ask(1000);
    EXPECT_TRUE(eventually([&] { return received() == 2; })) << replies;
    ask(1);
    ask(1001);  // only the request after the old one gets a reply
    EXPECT_TRUE(eventually([&] { return received() > 2; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_EQ(received(), 3);
  });
}

TEST(Transport, RandomlyReplayedFramesAreCarriedOutOnce) {
  under_attack([](const Target& target) {
    zmq::context_t context;
    RpcConnection channel(context, target.key, 0, 1, target.endpoint);
    ASSERT_TRUE(welcomed(channel, 600000));
    zmq::socket_t thief = dealer(context, target.endpoint);  // has recorded everything, and does not have the key
    std::mt19937_64 random(17);
    std::vector<std::vector<char>> recorded;
    std::uint64_t highest = 0;
    std::uint64_t acknowledged = 0;
    const auto hear = [&] {
      while (auto incoming = channel.receive()) acknowledged = std::max(acknowledged, incoming->frame.head.sequence);
    };
    for (int pair = 0; pair < 300; ++pair) {
      const auto value = static_cast<std::int64_t>(random() % 1000);
      for (const std::int64_t delta : {value, -value}) {
        zmq::message_t frame = add_request(channel, ++highest, 1000);
        const std::vector<std::int64_t> deltas(1000, delta);
        std::memcpy(body_of(frame).data() + sizeof(TableHead), deltas.data(), deltas.size() * sizeof(std::int64_t));
        recorded.emplace_back(frame.data<char>(), frame.data<char>() + frame.size());
        ASSERT_TRUE(eventually([&] { return channel.send(frame); }));
        for (std::uint64_t again = random() % 3; again > 0; --again) {
          const auto& old = recorded[recorded.size() - 1 - random() % std::min<std::size_t>(recorded.size(), 150)];
          zmq::message_t copy(old.data(), old.size());
          (void)channel.send(copy);
          zmq::message_t stolen(old.data(), old.size());
          (void)thief.send(stolen, zmq::send_flags::dontwait);
        }
      }
      hear();
    }
    // Messages of a connection arrive in order, so after the last reply all have arrived.
    EXPECT_TRUE(eventually([&] {
      hear();
      return acknowledged == highest;
    }));
  });
}

TEST(Transport, ADeathOnAnotherHostIsNamedByTheWaitingRank) {
  std::atomic<int> told{0};
  const auto rank = [&](Session& session) {
    TableOptions options{.name = "steps"};
    options.clock = "sync";
    const ArrayTable table = session.create_array(100, options);
    std::vector<float> numbers(100);
    const auto start = std::chrono::steady_clock::now();
    try {
      for (int step = 0;; ++step) {
        if (session.rank() == 3 && step == 5) throw std::runtime_error("rank 3 has had enough");
        table.add(numbers);
        table.get(numbers);
      }
    } catch (const TransportError& error) {
      EXPECT_NE(std::string(error.what()).find("rank 3 ("), std::string::npos) << error.what();
      ++told;
    } catch (const Error& error) {
      ADD_FAILURE() << "rank " << session.rank() << ": " << error.what();
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60)) << "it needs no deadline for that";
    EXPECT_THROW(session.barrier(), TransportError);
    EXPECT_THROW(session.shutdown(), TransportError);
  };
  EXPECT_THROW(run_cluster(4, rank, options_for_tests()), std::runtime_error);
  EXPECT_EQ(told.load(), 3);
}

TEST(Transport, AnAsynchronousTableContinuesWithAnotherRankOfTheHost) {
  std::atomic<int> went_on{0};
  std::atomic<int> ready{0};
  const auto rank = [&](Session& session) {
    const ArrayTable table = session.create_array(200'000);
    const std::vector<float> ones(200'000, 1.0F);
    std::vector<float> out(200'000);
    session.barrier();
    if (session.rank() == 2) throw std::runtime_error("rank 2 has had enough");
    // Rank 0 reaches the other host through rank 2. It may get one error, and then uses rank 3.
    int in_a_row = 0;
    went_on += eventually([&] {
      try {
        table.add(ones);
        table.get(out);
        ++in_a_row;
      } catch (const TransportError& error) {
        in_a_row = 0;
        EXPECT_NE(std::string(error.what()).find("rank 2 ("), std::string::npos) << error.what();
      }
      return !session.ranks().alive(2) && in_a_row >= 100;
    });
    // A rank that has left serves no requests, so the others must finish first.
    ++ready;
    EXPECT_TRUE(eventually([&] { return ready == 3; }));
    EXPECT_THROW(session.shutdown(), TransportError);
  };
  EXPECT_THROW(run_cluster(4, rank, options_for_tests()), std::runtime_error);
  EXPECT_EQ(went_on.load(), 3);
}

// Rank 0 dies while it combines or sends rank 1's add with its own.
TEST(Transport, ADeadRankThatCombinedAnAddIsNamedAndTheTableContinues) {
  for (const char* fault : {"0:combine:5", "0:combine:40"}) {
    std::atomic<int> went_on{0};
    std::atomic<int> ended{0};
    const auto rank = [&](Session& session) {
      const ArrayTable table = session.create_array(200'000);
      const std::vector<float> ones(200'000, 1.0F);
      session.barrier();
      int good = 0;
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(600);
      while (good < 60 && std::chrono::steady_clock::now() < end) {
        try {
          table.add(ones);
          ++good;
        } catch (const TransportError& error) {
          EXPECT_NE(std::string(error.what()).find("rank 0 ("), std::string::npos) << error.what();
          ++ended;
        }
      }
      if (good == 60) ++went_on;
      while (went_on < 3 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    };
    SessionOptions options = options_for_tests();
    options.fault = fault;
    run_cluster(4, rank, options);
    EXPECT_EQ(went_on.load(), 3) << fault;
    EXPECT_LT(ended.load(), 10) << fault;
  }
}

TEST(Transport, ASilentHostIsNamedWithinTheDeadline) {
  SessionOptions options = options_for_tests();
  options.host_timeout = 5;
  const auto rank = [](Session& session) {
    const ArrayTable table = session.create_array(1000);
    std::vector<float> out(1000);
    session.barrier();
    if (session.rank() == 1) throw std::runtime_error("rank 1 has had enough");
    const auto start = std::chrono::steady_clock::now();
    try {
      for (;;) table.get(out);
    } catch (const TransportError& error) {
      EXPECT_NE(std::string(error.what()).find("rank 1 ("), std::string::npos) << error.what();
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5 + 60));
    throw std::runtime_error("and so has rank 0");
  };
  EXPECT_THROW(run_cluster(2, rank, options), std::runtime_error);
}

}  // namespace pleiad

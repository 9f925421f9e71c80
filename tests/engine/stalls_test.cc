// A rank that is stopped, or that holds a lock for long, neither delays the other ranks' work nor makes another rank of
// its host look dead.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "engine/rpc_transport.h"
#include "session/core.h"
#include "table/table.h"
#include "table/table_service.h"
#include "tests/eventually.h"

namespace pleiad {

namespace {

// Ranks 0 and 1 are on the first host, rank 2 on the second.
constexpr int kFar = 2;
constexpr std::int64_t kBoth = 100'000;  // number of values; each host holds a part of them

SessionOptions short_of_patience() {
  SessionOptions options;
  options.log_level = "off";
  options.split_hosts = 2;
  options.timeout = 300;
  options.host_timeout = 12;
  return options;
}

}  // namespace

TEST(TransportStalls, ALockThatIsHeldForLongBlocksOnlyItsStripe) {
  std::atomic<bool> held{false};
  std::atomic<bool> release{false};
  run_cluster(
      3,
      [&](Session& session) {
        TableOptions options;
        options.dtype = DType::int64;
        const ArrayTable stuck = session.create_array(kBoth, options);
        const ArrayTable free = session.create_array(kBoth, options);
        session.barrier();
        if (session.rank() == 1) {
          session.core().tables()[0]->each_local_shard([&](Shard& shard, ShardRange) {
            shard.visit({0, 1}, [&](std::int64_t) {
              held = true;
              EXPECT_TRUE(eventually([&] { return release.load(); }));
            });
          });
        }
        if (session.rank() == kFar) {
          EXPECT_TRUE(eventually([&] { return held.load(); }));
          const std::vector<std::int64_t> ones(kBoth, 1);
          std::vector<std::int64_t> out(kBoth);
          // Rank 0's service carries out the requests of the far rank.
          std::vector<std::thread> waiting;
          for (int i = 0; i < 3; ++i) waiting.emplace_back([&] { stuck.add(ones); });
          for (int i = 0; i < 100; ++i) {
            free.add(ones);
            free.get(out);
          }
          EXPECT_EQ(out[0], 100);
          release = true;
          for (std::thread& thread : waiting) thread.join();
          stuck.get(out);
          EXPECT_EQ(out, std::vector<std::int64_t>(kBoth, 3)) << "each once";
        }
        session.barrier();
      },
      short_of_patience());
}

TEST(TransportStalls, AGetUsesAnotherRankOfASilentRanksHost) {
  class Mute final : public RequestHandler {
   public:
    bool handle(const IncomingRequest&, FunctionRef<std::span<char>(std::size_t)>) override {
      asked = true;
      EXPECT_TRUE(eventually([&] { return release.load(); }));
      throw TransportError("too late");
    }
    void tick() override {}
    [[nodiscard]] bool unanswered() const override { return false; }
    std::atomic<bool> asked{false};
    std::atomic<bool> release{false};
  } mute;
  run_cluster(
      3,
      [&](Session& session) {
        const ArrayTable table = session.create_array(kBoth);
        RpcTransport& rpc = *session.core().engine().rpc();
        RequestHandler& service = *session.core().context().service;
        if (session.rank() == 0) rpc.set_handler(&mute);
        session.barrier();
        if (session.rank() == kFar) {
          std::vector<float> out(kBoth);
          ASSERT_EQ(rpc.serving_rank(0), 0) << "the silent one would be asked";
          table.get(out);
          EXPECT_TRUE(mute.asked);
          EXPECT_EQ(rpc.serving_rank(0), 1) << "later calls do not even try";
          table.add(std::vector<float>(kBoth, 1));
          table.get(out);
          EXPECT_EQ(out[0], 1);
          mute.release = true;
        }
        session.barrier();
        if (session.rank() == 0) rpc.set_handler(&service);
        session.barrier();
      },
      short_of_patience());
}

TEST(TransportStalls, ClockRequestsGoToRank0EvenIfItIsSilentDuringAHandshake) {
  class Blocked final : public RequestHandler {
   public:
    bool handle(const IncomingRequest& request, FunctionRef<std::span<char>(std::size_t)> answer) override {
      asked = true;
      EXPECT_TRUE(eventually([&] { return release.load(); }));
      return service->handle(request, answer);
    }
    void tick() override { service->tick(); }
    [[nodiscard]] bool unanswered() const override { return service->unanswered(); }
    RequestHandler* service = nullptr;
    std::atomic<bool> asked{false};
    std::atomic<bool> release{false};
  } blocked;
  run_cluster(
      3,
      [&](Session& session) {
        const ArrayTable table = session.create_array(kBoth);
        TableOptions options;
        options.clock = "sync";
        const ArrayTable clocked = session.create_array(kBoth, options);
        RpcTransport& rpc = *session.core().engine().rpc();
        RequestHandler& service = *session.core().context().service;
        if (session.rank() == 0) {
          blocked.service = &service;
          rpc.set_handler(&blocked);
        }
        session.barrier();
        std::vector<float> out(kBoth);
        if (session.rank() == kFar) {
          // This get occupies the connection to rank 0 and blocks the service there, so the next call waits in its
          // handshake.
          std::thread occupies([&] { table.get(out); });
          EXPECT_TRUE(eventually([&] { return blocked.asked.load(); }));
          std::atomic<bool> ended{false};
          std::string problem;
          std::thread waits([&] {
            std::vector<float> values(kBoth);
            try {
              clocked.get(values);
            } catch (const Error& error) {
              problem = error.what();
            }
            ended = true;
          });
          occupies.join();  // rank 1 has answered in place of rank 0
          // Longer than the silence after which other requests go to rank 1.
          const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(5);
          while (!ended && std::chrono::steady_clock::now() < until)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
          EXPECT_FALSE(ended) << problem;
          blocked.release = true;
          waits.join();
          EXPECT_EQ(problem, "");
        } else {
          EXPECT_TRUE(eventually([&] { return blocked.release.load(); }));
          clocked.get(out);
        }
        session.barrier();
        if (session.rank() == 0) rpc.set_handler(&service);
        session.barrier();
      },
      short_of_patience());
}

TEST(TransportStalls, AMissingFileDescriptorIsALocalError) {
  std::string problem;
  run_cluster(
      2,
      [&](Session& session) {
        const ArrayTable table = session.create_array(kBoth);
        session.barrier();
        if (session.rank() == 0) {
          rlimit before{};
          getrlimit(RLIMIT_NOFILE, &before);
          rlimit none = before;
          none.rlim_cur = 3;
          setrlimit(RLIMIT_NOFILE, &none);
          try {
            table.add(std::vector<float>(kBoth, 1));
          } catch (const TransportError& error) {
            problem = error.what();
          }
          setrlimit(RLIMIT_NOFILE, &before);
          table.add(std::vector<float>(kBoth, 1));
        }
        session.barrier();
      },
      short_of_patience());
  EXPECT_NE(problem.find("cannot open a connection to rank 1"), std::string::npos) << problem;
  EXPECT_NE(problem.find("ulimit -n"), std::string::npos) << problem;
}

}  // namespace pleiad

// SharedTimer: poll() returns true at the same call on all ranks.
#include "session/shared_timer.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "pleiad/pleiad.hpp"
#include "session/core.h"
#include "tests/cluster.h"

namespace pleiad {
namespace {

using test::hosts;

// Ranks run at different and changing speeds, and the slow ones yield their core at times.
void amble(int rank, int call) {
  volatile int work = (call * 7 + rank * 5) % 13 * 50;
  while (work > 0) work = work - 1;
  if ((call / 50 + rank) % 3 == 0 && call % 7 == 0) std::this_thread::yield();
}

class SharedTimerTest : public testing::TestWithParam<int> {};

TEST_P(SharedTimerTest, StrikesAtTheSameCallsOnAllRanks) {
  constexpr int kRanks = 4;
  constexpr int kCalls = 2'000;
  for (const double every : {0.0, 0.0002}) {
    std::array<std::vector<int>, kRanks> struck;
    run_cluster(
        kRanks,
        [&](Session& session) {
          Engine& engine = session.core().engine();
          SharedTimer watch(engine, every);
          std::vector<int>& mine = struck.at(static_cast<std::size_t>(session.rank()));
          for (int call = 1; call <= kCalls || (mine.size() < 3 && call < 100'000'000); ++call) {
            amble(session.rank(), call);
            // At first, all ranks also synchronise at other times, which restarts the timer. On a fast machine the
            // timer may never expire between two such times, so they stop after a while.
            const bool strikes = watch.poll();
            if (strikes) mine.push_back(call);
            if (!strikes && (call % 97 != 0 || call > kCalls)) continue;
            watch.restart();
            engine.collectives().barrier();
          }
          session.shutdown();
        },
        hosts(GetParam()));
    for (const auto& theirs : struck) EXPECT_EQ(theirs, struck[0]);
    EXPECT_GE(struck[0].size(), every == 0 ? 97U : 3U);
  }
}

INSTANTIATE_TEST_SUITE_P(Hosts, SharedTimerTest, testing::Values(1, 2));

TEST(SharedTimer, ADeathIsHeardOf) {
  std::string text;
  EXPECT_THROW(run_cluster(
                   2,
                   [&](Session& session) {
                     SharedTimer watch(session.core().engine(), 3600);
                     if (session.rank() == 1) throw InvalidArgument("rank 1 has had enough");
                     try {
                       for (;;) {
                         (void)watch.poll();
                         std::this_thread::yield();
                       }
                     } catch (const TransportError& error) {
                       text = error.what();
                     }
                   },
                   hosts(1)),
               InvalidArgument);
  EXPECT_NE(text.find("rank 1"), text.npos) << text;
}

// A rank that is ahead must wait for the first rank to make all earlier calls.
TEST(SharedTimer, NoRankRunsFarAheadOfTheFirstRank) {
  std::atomic<int> first_made{0};
  run_cluster(
      2,
      [&](Session& session) {
        SharedTimer watch(session.core().engine(), 0);
        for (int call = 1; call <= 300; ++call) {
          if (session.rank() == 0) {
            std::this_thread::sleep_for(std::chrono::microseconds(100));
            first_made = call;
          }
          if (watch.poll()) {
            watch.restart();
            session.barrier();
          }
          EXPECT_GE(first_made, session.rank() == 1 ? call - 2 : call);
        }
        session.shutdown();
      },
      hosts(1));
}

}  // namespace
}  // namespace pleiad

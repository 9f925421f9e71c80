// Clocks that do not wait for every worker: bounded staleness (ssp) and backup workers.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "pleiad/pleiad.hpp"

namespace pleiad {
namespace {

using namespace std::chrono_literals;

TableOptions ssp(int staleness) {
  TableOptions options;
  options.name = "w";
  options.clock = "ssp";
  options.staleness = staleness;
  return options;
}

TableOptions backup(double fraction) {
  TableOptions options;
  options.name = "w";
  options.clock = "sync";
  options.apply = "round";
  options.backup = fraction;
  return options;
}

SessionOptions on(int hosts) {
  SessionOptions options;
  options.split_hosts = hosts;
  options.log_level = "off";
  return options;
}

float first_of(const ArrayTable& table) {
  std::vector<float> out(static_cast<std::size_t>(table.size()));
  table.get(out);
  return out[0];
}

std::string problem_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

class Ssp : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Hosts, Ssp, testing::Values(1, 2));

TEST_P(Ssp, AWorkerRunsAheadByTheBoundAndNoFurther) {
  for (const int staleness : {0, 1, 3}) {
    std::atomic<bool> ahead{false};
    std::atomic<bool> slow_ticked{false};
    run_cluster(
        2,
        [&](Session& session) {
          const ArrayTable table = session.create_array(3, ssp(staleness));
          if (session.rank() == 0) {
            for (int k = 0; k < staleness; ++k) {
              table.add(std::vector<float>(3, 1));
              table.tick();
              EXPECT_EQ(first_of(table), static_cast<float>(k + 1)) << "own adds are seen at once";
            }
            table.tick();
            ahead = true;
            EXPECT_GE(first_of(table), static_cast<float>(staleness + 100));
            EXPECT_TRUE(slow_ticked) << "a get came through beyond the bound";
          } else {
            while (!ahead) std::this_thread::yield();
            std::this_thread::sleep_for(30ms);
            table.add(std::vector<float>(3, 100));
            slow_ticked = true;
            table.tick();
          }
          session.barrier();
        },
        on(GetParam()));
  }
}

// A worker's adds before a tick are visible to every worker that is at most `staleness` ticks ahead of that tick.
TEST_P(Ssp, EveryGetSeesTheAddsThatTheBoundGuarantees) {
  constexpr int kWorkers = 4;
  constexpr int kStaleness = 2;
  constexpr int kTicks = 60;
  run_cluster(
      kWorkers,
      [&](Session& session) {
        const MatrixTable table = session.create_matrix(kWorkers, 2, ssp(kStaleness));
        std::mt19937 random(static_cast<unsigned>(session.rank()));
        const RowId me = session.rank();
        for (int tick = 1; tick <= kTicks; ++tick) {
          table.add_rows({&me, 1}, std::vector<float>{1, 0});
          table.tick();
          if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
          std::vector<float> seen(kWorkers * 2);
          table.get(seen);
          for (int w = 0; w < kWorkers; ++w) {
            EXPECT_GE(seen[static_cast<std::size_t>(w) * 2], static_cast<float>(tick - kStaleness));
          }
          EXPECT_EQ(seen[static_cast<std::size_t>(me) * 2], static_cast<float>(tick));
        }
        session.barrier();
      },
      on(GetParam()));
}

TEST_P(Ssp, AWorkerThatHasShutDownIsNotWaitedFor) {
  run_cluster(
      2,
      [&](Session& session) {
        const ArrayTable table = session.create_array(3, ssp(1));
        if (session.rank() == 0) {
          for (int k = 0; k < 5; ++k) table.tick();
          EXPECT_EQ(first_of(table), 0);
        }
        session.shutdown();
      },
      on(GetParam()));
}

TEST(SspRefusals, WhatMakesNoSense) {
  run_cluster(1, [](Session& session) {
    const ArrayTable plain = session.create_array(3);
    EXPECT_EQ(
        problem_of([&] { plain.tick(); }),
        "[ArrayTable.tick] table \"table 0\": clock = async counts calls by itself; call tick only with clock = ssp");
    TableOptions options;
    options.staleness = 2;
    EXPECT_NE(problem_of([&] { (void)session.create_array(3, options); }).find("staleness needs clock = ssp"),
              std::string::npos);
    EXPECT_NE(problem_of([&] { (void)session.create_array(3, ssp(-1)); }).find("received -1"), std::string::npos);
    EXPECT_NE(problem_of([&] { (void)session.create_array(3, backup(1.5)); }).find("received 1.5"), std::string::npos);
    TableOptions each = backup(0.5);
    each.apply = "each";
    EXPECT_NE(problem_of([&] { (void)session.create_array(3, each); }).find("backup needs apply = round"),
              std::string::npos);
  });
}

class Backup : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Hosts, Backup, testing::Values(1, 2));

/// Returns the number of dropped adds of all ranks. Collective.
std::int64_t dropped_of_all(Session& session, const ArrayTable& table) {
  auto dropped = static_cast<std::int64_t>(table.stats().dropped_adds);
  session.all_reduce(View{&dropped, 1, DType::int64}, session.hosts() == 1 ? ReduceOp::max : ReduceOp::sum);
  return dropped;
}

TEST_P(Backup, RoundsCloseWithoutTheSlowestAndItsLateAddIsDropped) {
  std::atomic<int> rounds{0};
  run_cluster(
      3,
      [&](Session& session) {
        const ArrayTable table = session.create_array(70'000, backup(0.34));
        const std::vector<float> ones(70'000, 1);
        if (session.rank() < 2) {
          for (int k = 1; k <= 5; ++k) {
            table.add(ones);
            EXPECT_EQ(first_of(table), static_cast<float>(2 * k));
          }
          ++rounds;
        } else {
          while (rounds < 2) std::this_thread::yield();
          table.add(ones);  // for the first round, which has been closed for long
          EXPECT_EQ(table.stats().dropped_adds, 1U);
          EXPECT_EQ(first_of(table), 10);
        }
        session.barrier();
        // The workers are in step again: two of the three are enough for a round, and all three may be in time.
        table.add(ones);
        const float after = first_of(table);
        EXPECT_TRUE(after == 12 || after == 13) << after;
        session.barrier();
        const auto dropped = static_cast<float>(dropped_of_all(session, table));
        EXPECT_EQ(first_of(table), 14 - dropped) << dropped;
        session.barrier();
        session.shutdown();
      },
      on(GetParam()));
}

TEST_P(Backup, WithoutASpareWorkerItIsASynchronousTable) {
  run_cluster(
      3,
      [](Session& session) {
        const ArrayTable table = session.create_array(3, backup(0.3));  // 0.3 of three workers is none
        for (int k = 1; k <= 20; ++k) {
          table.add(std::vector<float>(3, 1));
          EXPECT_EQ(first_of(table), static_cast<float>(3 * k));
        }
        EXPECT_EQ(table.stats().dropped_adds, 0U);
        session.barrier();
        session.shutdown();
      },
      on(GetParam()));
}

// An add is applied as a whole or dropped as a whole, and every dropped one is counted.
TEST_P(Backup, NoAddIsHalfInOrLostUncounted) {
  constexpr int kWorkers = 4;
  constexpr int kRounds = 150;
  constexpr std::int64_t kSize = 100'000;
  run_cluster(
      kWorkers,
      [&](Session& session) {
        const ArrayTable table = session.create_array(kSize, backup(0.25));
        std::mt19937 random(static_cast<unsigned>(session.rank()));
        const std::vector<float> ones(kSize, 1);
        std::vector<float> out(kSize);
        float before = 0;
        std::uint64_t adds = 0;
        while (table.rounds() < kRounds) {
          ++adds;
          if (random() % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 1000));
          table.add(ones);
          table.get(out);
          EXPECT_GE(out[0], before);
          before = out[0];
        }
        session.barrier();
        table.get(out);
        auto adds_of_all = static_cast<std::int64_t>(adds);
        session.all_reduce(View{&adds_of_all, 1, DType::int64});
        const auto expected = static_cast<float>(adds_of_all - dropped_of_all(session, table));
        EXPECT_EQ(std::ranges::count(out, expected), kSize) << out[0] << " and " << out[kSize - 1];
        EXPECT_GE(expected, static_cast<float>((kWorkers - 1) * kRounds));
        EXPECT_EQ(table.rounds(), static_cast<std::uint64_t>(kRounds));
        session.barrier();
        session.shutdown();
      },
      on(GetParam()));
}

}  // namespace
}  // namespace pleiad

// Ranks that only work and ranks that only serve, on one host and on several, support every operation of tables.
#include "tests/roles.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "pleiad/pleiad.hpp"
#include "tests/file/folder.h"

namespace pleiad {
namespace {

struct World {
  std::vector<std::string> roles;
  int hosts;
};

class RolesOnHosts : public testing::TestWithParam<World> {};
INSTANTIATE_TEST_SUITE_P(Worlds, RolesOnHosts,
                         testing::Values(World{{"worker", "worker", "server", "server"}, 1},
                                         World{{"worker", "worker", "server", "server"}, 2},
                                         World{{"server", "worker", "worker", "server"}, 2},
                                         World{{"server", "worker", "worker", "none"}, 4},
                                         World{{"server", "server", "worker", "both"}, 2}));

constexpr std::int64_t kSize = 200'000;  // seven stripes of floats
constexpr std::int64_t kCols = 40;

std::vector<RowId> some_ids() {
  std::vector<RowId> ids;
  for (std::int64_t i = 0; i < 900; ++i)
    ids.push_back(static_cast<RowId>(static_cast<std::uint64_t>(i) * 0x9E3779B97F4A7C15U));
  return ids;
}

template <class T>
void expect_all(std::span<const T> values, T expected, const char* what) {
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(values, expected)), values.size()) << what << ": " << values[0];
}

TEST_P(RolesOnHosts, EveryKindOfTableIsHeldByTheServersAndChangedByTheWorkers) {
  test::run_roles(GetParam().roles, GetParam().hosts, [](Session& session) {
    const ArrayTable async = session.create_array(kSize, {.name = "async"});
    const ArrayTable rounds =
        session.create_array(kSize, {.name = "rounds",
                                     .clock = "sync",
                                     .apply = "round",
                                     .updater = {.rule = "momentum", .learning_rate = 1, .momentum = 0.5}});
    const ArrayTable stale = session.create_array(kSize, {.name = "stale", .clock = "ssp", .staleness = 1});
    const SparseTable sparse = session.create_sparse(kCols, {.name = "sparse", .init = "constant", .init_value = 0.5});
    const KeyValueTable counts = session.create_key_value(1, {.name = "counts", .dtype = DType::int64});
    const auto ids = some_ids();
    const auto workers = static_cast<float>(session.workers());
    const std::vector<float> ones(static_cast<std::size_t>(kSize), 1);
    const std::vector<float> row_ones(ids.size() * kCols, 1);
    std::vector<float> out(ones.size());
    std::vector<float> rows(row_ones.size());
    if (session.worker_id() >= 0) {
      float velocity = 0;
      float expected = 0;
      for (int step = 1; step <= 3; ++step) {
        async.add(ones);
        rounds.add(ones);
        rounds.get(out);
        velocity = 0.5F * velocity + workers;
        expected -= velocity;
        expect_all<float>(out, expected, "rounds");
        stale.add(ones);
        stale.tick();
        stale.get(out);
        EXPECT_GE(out[0], workers * static_cast<float>(step - 1));
        sparse.add(ids, row_ones);
        counts.add(ids, std::vector<std::int64_t>(ids.size(), 1));
      }
    } else {
      EXPECT_THROW(rounds.add(ones), StateError);
      EXPECT_THROW(stale.tick(), StateError);
    }
    session.barrier();
    async.get(out);
    expect_all<float>(out, 3 * workers, "async");
    sparse.get(ids, rows);
    expect_all<float>(rows, 0.5F + 3 * workers, "sparse");
    EXPECT_EQ(sparse.rows(), static_cast<std::int64_t>(ids.size()));
    EXPECT_EQ(counts.at<std::int64_t>(ids[7]), 3 * session.workers());
    session.barrier();  // a server must not leave before all workers have read
  });
}

// A rank without shards has nothing to write, and a rank that only serves still takes part.
TEST_P(RolesOnHosts, WhatTheyHoldIsSavedAndLoaded) {
  const test::Folder folder;
  const TableOptions dense{.name = "dense", .updater = {.rule = "adam"}};
  const TableOptions sparse{.name = "sparse", .updater = {.rule = "adam"}};
  const auto ids = some_ids();
  const std::vector<float> ones(static_cast<std::size_t>(kSize), 1);
  const std::vector<float> row_ones(ids.size() * kCols, 1);
  std::vector<float> values(ones.size());
  std::vector<float> rows(row_ones.size());
  test::run_roles(GetParam().roles, GetParam().hosts, [&](Session& session) {
    const ArrayTable array = session.create_array(kSize, dense);
    const SparseTable table = session.create_sparse(kCols, sparse);
    if (session.worker_id() == 0) {
      array.add(ones);
      table.add(ids, row_ones);
    }
    save_tables(session, folder / "set");
    if (session.worker_id() == 0) {  // the result of the next add depends on the rule's state
      array.add(ones);
      table.add(ids, row_ones);
      array.get(values);
      table.get(ids, rows);
    }
    session.barrier();
  });
  const auto loads = [&](const World& world) {
    test::run_roles(world.roles, world.hosts, [&](Session& session) {
      const ArrayTable array = session.create_array(kSize, dense);
      const SparseTable table = session.create_sparse(kCols, sparse);
      (void)load_tables(session, folder / "set");
      if (session.worker_id() == 0) {
        array.add(ones);
        table.add(ids, row_ones);
        std::vector<float> out(values.size());
        array.get(out);
        EXPECT_EQ(out, values);
        out.resize(rows.size());
        table.get(ids, out);
        EXPECT_EQ(out, rows);
      }
      session.barrier();
    });
  };
  loads(GetParam());
  loads({{"both"}, 1});
  loads({{"server", "worker", "server"}, 3});
}

TEST(Roles, ARankThatOnlyServesSavesTablesWithBackupWorkers) {
  const test::Folder folder;
  const TableOptions options{.name = "late", .clock = "sync", .backup = 0.34, .apply = "round"};
  const std::vector<float> ones(10, 1);
  const auto work = [&](Session& session, const ArrayTable& table, float expected) {
    if (session.worker_id() < 0) return;
    std::vector<float> out(ones.size());
    table.add(ones);
    table.get(out);
    EXPECT_GE(out[0], expected);  // a round does not wait for the slowest of the three workers
  };
  test::run_roles({"server", "worker", "worker", "worker"}, 2, [&](Session& session) {
    const ArrayTable table = session.create_array(10, options);
    work(session, table, 2);
    session.barrier();
    save_tables(session, folder / "set");
  });
  test::run_roles({"worker", "worker", "worker", "server"}, 2, [&](Session& session) {
    const ArrayTable table = session.create_array(10, options);
    (void)load_tables(session, folder / "set");
    work(session, table, 4);
    session.barrier();
  });
}

TEST(Roles, WorkersGoOnWithoutWaitingForRanksThatAreNone) {
  test::run_roles({"server", "worker", "none", "both"}, 1, [](Session& session) {
    EXPECT_EQ(session.workers(), 2);
    EXPECT_EQ(session.servers(), 2);
    EXPECT_EQ(session.worker_id(), (std::vector{-1, 0, -1, 1}[static_cast<std::size_t>(session.rank())]));
    EXPECT_EQ(session.server_id(), (std::vector{0, -1, -1, 1}[static_cast<std::size_t>(session.rank())]));
    EXPECT_EQ(session.ranks().worker_rank(1), 3);
    EXPECT_EQ(session.ranks().server_rank(0), 0);
    const ArrayTable sync =
        session.create_array(10, {.name = "sync", .dtype = DType::int64, .clock = "sync", .apply = "round"});
    const ArrayTable async = session.create_array(10, {.name = "async", .dtype = DType::int64});
    EXPECT_EQ(sync.shard(1).second, 10);
    std::vector<std::int64_t> out(10);
    const std::vector<std::int64_t> ones(10, 1);
    if (session.worker_id() < 0) {
      try {
        sync.get(out);
        ADD_FAILURE() << "a rank that is no worker has no clock";
      } catch (const StateError& error) {
        EXPECT_NE(std::string(error.what()).find("not a worker"), std::string::npos) << error.what();
      }
      EXPECT_THROW(sync.add(ones), StateError);
    } else {
      for (int step = 1; step <= 5; ++step) {
        sync.add(ones);
        sync.get(out);
        EXPECT_EQ(out[9], 2 * step);
      }
    }
    async.add(ones);  // every rank can use an asynchronous table
    session.barrier();
    async.get(out);
    EXPECT_EQ(out[0], 4);
  });
}

TEST(Roles, AWorldWithoutServersHasNoTables) {
  test::run_roles({"worker", "none"}, 1, [](Session& session) {
    try {
      (void)session.create_array(10);
      ADD_FAILURE() << "somebody holds it";
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find("no rank is a server"), std::string::npos) << error.what();
    }
    EXPECT_NO_THROW(session.barrier());
  });
}

TEST(Roles, AnUnknownRoleIsAnErrorOnAllRanks) {
  const auto host = std::make_shared<InprocHost>(2);
  std::vector<std::shared_ptr<InprocEngine>> engines;
  for (const int r : {0, 1}) {
    SessionOptions options;
    options.log_level = "off";
    options.role = r == 0 ? "both" : "slave";
    engines.push_back(std::make_shared<InprocEngine>(options, r, host, nullptr));
  }
  std::thread other([&] { EXPECT_THROW(SessionCore core(engines[1]), InvalidArgument); });
  try {
    const SessionCore core(engines[0]);
    ADD_FAILURE() << "did not hear of it";
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("rank 1"), std::string::npos) << error.what();
  }
  other.join();
}

}  // namespace
}  // namespace pleiad

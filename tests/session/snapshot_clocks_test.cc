// The clocks and rounds that a snapshot contains.
#include <gtest/gtest.h>

#include <algorithm>

#include "file/saved_set.h"
#include "pleiad/pleiad.hpp"
#include "tests/cluster.h"
#include "tests/file/folder.h"
#include "tests/roles.h"

namespace pleiad {
namespace {

using test::Folder;
using test::hosts;
using test::kThreeStripes;

TEST(SnapshotClocks, RoundsThatAreCompleteAreInIt) {
  const Folder folder;
  TableOptions options;
  options.clock = "sync";
  options.apply = "round";
  options.updater.rule = "sgd";
  options.updater.learning_rate = 1;
  run_cluster(2, [&](Session& session) {
    const ArrayTable table = session.create_array(3, options);
    table.add(std::vector<float>{1, 2, 3});  // added by both workers, and no get has asked for the round
    save_tables(session, folder / "set");
    std::vector<float> out(3);
    table.get(out);
    EXPECT_EQ(out, (std::vector<float>{-2, -4, -6}));
  });
  run_cluster(3, [&](Session& session) {
    const ArrayTable table = session.create_array(3, options);
    (void)load_tables(session, folder / "set");
    table.add(std::vector<float>{1, 1, 1});
    std::vector<float> out(3);
    table.get(out);
    EXPECT_EQ(out, (std::vector<float>{-5, -7, -9}));
  });
}

std::map<std::string, std::string> said_in(const std::filesystem::path& set) {
  return SavedSet(set).manifest().metadata;
}

// Rank 0 only serves, so the snapshot must not use its own count of calls.
TEST(SnapshotClocks, RecordsTheClocks) {
  for (const int host_count : {1, 2}) {
    const Folder folder;
    test::run_roles({"server", "worker", "worker"}, host_count, [&](Session& session) {
      const ArrayTable sync = session.create_array(3, {.name = "sync", .clock = "sync"});
      const ArrayTable ssp = session.create_array(3, {.name = "ssp", .clock = "ssp", .staleness = 9});
      const ArrayTable free = session.create_array(3, {.name = "free"});
      std::vector<float> three(3);
      if (session.worker_id() >= 0) {
        for (int i = 0; i < 4; ++i) sync.add(three);
        sync.get(three);
        for (int i = 0; i <= session.worker_id(); ++i) ssp.tick();
      }
      save_tables(session, folder / "set");
    });
    const auto said = said_in(folder / "set");
    EXPECT_EQ(said.at("workers"), "2");
    EXPECT_EQ(said.at("table.sync.clock.adds"), "4");
    EXPECT_EQ(said.at("table.sync.clock.gets"), "1");
    EXPECT_EQ(said.at("table.ssp.clock.ticks"), "1,2");
    EXPECT_FALSE(said.contains("table.free.clock.adds"));
  }
}

// Two of three workers are enough for a round. The next get closes it, and there was none before the snapshot.
TEST(SnapshotClocks, ContainsARoundThatEnoughWorkersHaveAddedTo) {
  for (const int host_count : {1, 3}) {
    const Folder folder;
    const TableOptions options{.name = "w", .clock = "sync", .backup = 0.34, .apply = "round"};
    run_cluster(
        3,
        [&](Session& session) {
          const ArrayTable table = session.create_array(kThreeStripes, options);
          if (session.rank() != 1) table.add(std::vector<float>(kThreeStripes, 1));
          save_tables(session, folder / "set");
        },
        hosts(host_count));
    EXPECT_EQ(said_in(folder / "set").at("table.w.clock.rounds"), "1");
    run_cluster(2, [&](Session& session) {
      const ArrayTable table = session.create_array(kThreeStripes, options);
      (void)load_tables(session, folder / "set");
      std::vector<float> out(kThreeStripes);
      table.get(out);
      EXPECT_EQ(std::ranges::count(out, 2.0F), kThreeStripes) << out[0];
      session.barrier();
    });
  }
}

TEST(SnapshotClocks, AWorkerWithAMissingCallIsNamedAtTheSave) {
  const Folder folder;
  TableOptions options;
  options.clock = "sync";
  EXPECT_THROW(run_cluster(
                   2,
                   [&](Session& session) {
                     const ArrayTable table = session.create_array(3, options);
                     if (session.rank() == 0) table.add(std::vector<float>{1, 2, 3});
                     save_tables(session, folder / "set");
                   },
                   hosts(1)),
               OrderError);
  EXPECT_FALSE(std::filesystem::exists(folder / "set" / "manifest.json"));
}

}  // namespace
}  // namespace pleiad

// Snapshots in worlds in which another rank than the first one commits them.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "engine/inproc.h"
#include "pleiad/pleiad.hpp"
#include "pleiad/snapshot.h"
#include "session/core.h"
#include "tests/cluster.h"
#include "tests/file/folder.h"

namespace pleiad {
namespace {

int snapshots_in(const std::filesystem::path& folder) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) count += entry.is_directory() ? 1 : 0;
  return count;
}

// Saves three snapshots, whose steps a timer decides, and loads the last one.
void save_and_load(Session& session, const std::filesystem::path& folder, bool background) {
  const std::vector<float> ones(4, 1);
  const ArrayTable table = session.create_array(4);
  Snapshots snapshots(session, folder, {.every_seconds = 1e-4, .keep = 2, .background = background});
  EXPECT_FALSE(snapshots.load_last().has_value());
  std::int64_t step = 0;
  for (int saved = 0; saved < 3;) {
    table.add(ones);
    if (!snapshots.step(++step)) continue;
    ++saved;
    snapshots.wait();
  }
  session.barrier();
  std::vector<float> before(4);
  table.get(before);
  session.barrier();
  table.add(ones);
  const auto note = snapshots.load_last();
  ASSERT_TRUE(note.has_value());
  EXPECT_EQ(note->step, step);
  session.barrier();
  std::vector<float> after(4);
  table.get(after);
  EXPECT_EQ(after, before);
}

TEST(SnapshotCommitter, IsAnyRankOfTheWorld) {
  const test::Folder folder;
  for (const int hosts : {1, 3}) {
    for (const bool background : {false, true}) {
      const std::filesystem::path run = folder / fmt::format("run-{}-{}", hosts, background);
      run_inproc(3, test::hosts(hosts), nullptr,
                 [&](std::shared_ptr<InprocEngine> engine) {
                   Session session(std::make_shared<SessionCore>(std::move(engine)));
                   save_and_load(session, run, background);
                   session.shutdown();
                 },
                 {.clock_home = 2, .snapshot_committer = 2, .segment_maker = 2});
      EXPECT_EQ(snapshots_in(run), 2) << hosts << " hosts";
    }
  }
}

}  // namespace
}  // namespace pleiad

// The world as one of its ranks sees it.
#include "engine/world.h"

#include <gtest/gtest.h>

#include <vector>

namespace pleiad {
namespace {

// Five ranks on two hosts: 0, 2 and 3 on the first one, 1 and 4 on the second one.
std::vector<RankLocation> five_ranks() {
  return {{.host = 0, .local = 0, .name = "left"},
          {.host = 1, .local = 0, .name = "right"},
          {.host = 0, .local = 1, .name = "left"},
          {.host = 0, .local = 2, .name = "left"},
          {.host = 1, .local = 1, .name = "right"}};
}

TEST(World, KnowsTheRanksOfItsHostInTheOrderOfTheirLocalIndex) {
  const World world(3, five_ranks());
  EXPECT_EQ(world.size(), 5);
  EXPECT_EQ(world.hosts(), 2);
  EXPECT_FALSE(world.one_host());
  EXPECT_EQ(world.here().local, 2);
  EXPECT_EQ((std::vector<int>(world.neighbours().begin(), world.neighbours().end())), (std::vector<int>{0, 2, 3}));
  EXPECT_EQ(world.world_rank(1), 2);
  EXPECT_TRUE(world.on_this_host(0));
  EXPECT_FALSE(world.on_this_host(4));
  EXPECT_TRUE(world.contains(4));
  EXPECT_FALSE(world.contains(5));
  EXPECT_FALSE(world.contains(-1));
}

TEST(World, GivesTheFirstRanksTheRolesUnlessToldOtherwise) {
  const World world(1, five_ranks());
  EXPECT_EQ(world.clock_home(), 0);
  EXPECT_EQ(world.snapshot_committer(), 0);
  EXPECT_EQ(world.segment_maker(), 1);
  EXPECT_TRUE(world.makes_segments());
  EXPECT_FALSE(world.commits_snapshots());
}

TEST(World, GivesEveryRankTheSameViewOfMovedRoles) {
  const WorldRoles roles{.clock_home = 2, .snapshot_committer = 4, .segment_maker = 2};
  for (int rank = 0; rank < 5; ++rank) {
    const World world(rank, five_ranks(), roles);
    EXPECT_EQ(world.clock_home(), 2);
    EXPECT_EQ(world.commits_snapshots(), rank == 4);
    // The second host has only two ranks, so its last one makes the segments.
    EXPECT_EQ(world.segment_maker(), world.here().host == 0 ? 3 : 4);
    EXPECT_EQ(world.makes_segments(), rank == 3 || rank == 4);
  }
}

}  // namespace
}  // namespace pleiad

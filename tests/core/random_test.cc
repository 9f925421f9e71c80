#include "core/random.h"

#include <gtest/gtest.h>

#include <vector>

namespace {

using namespace pleiad;

// Known values that the authors of the generator publish with their code.
TEST(Philox, GivesThePublishedNumbers) {
  EXPECT_EQ((Philox{}({0, 0, 0, 0})), (Philox::Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ((Philox{.key = {0xffffffff, 0xffffffff}}({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff})),
            (Philox::Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ((Philox{.key = {0xa4093822, 0x299f31d0}}({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344})),
            (Philox::Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, SeedFillsBothWordsOfTheKey) {
  EXPECT_EQ(Philox::seeded(0x299f31d0a4093822).key, (Philox::Key{0xa4093822, 0x299f31d0}));
}

TEST(Below, ReachesEveryValueAboutEquallyOften) {
  std::vector<int> counts(7);
  for (std::uint32_t i = 0; i < 7000; ++i) ++counts[below(Philox::seeded(3)({i, 0, 0, 0})[0], 7)];
  for (const int count : counts) EXPECT_NEAR(count, 1000, 150);
  EXPECT_EQ(below(0xffffffff, 1), 0U);
  EXPECT_EQ(below(0xffffffff, 5), 4U);
}

}  // namespace

// Adds of the ranks of one host that cross the network together. The only visible difference is the number of bytes
// sent.
#include "tests/table/tables.h"

namespace pleiad::conformance {

namespace {

constexpr std::int64_t kLong = 300'000;  // ten stripes of floats: each host has some of the chunks

/// Returns whether ranks share a host and also reach another host.
bool has_neighbours_and_others(const Session& session) {
  return session.hosts() > 1 && session.hosts() < session.size();
}

std::int64_t combined_everywhere(Session& session, const TableHandle& table) {
  std::vector<std::int64_t> sum = {static_cast<std::int64_t>(table.stats().combined)};
  session.all_reduce(sum);
  return sum[0];
}

}  // namespace

CASE_FOR(Combine, CombinedRoundsOfAHostAreExact, 2) {
  const ArrayTable table = session.create_array(
      kLong, {.clock = "sync", .apply = "round", .updater = {.rule = "momentum", .learning_rate = 1, .momentum = 0.5}});
  std::vector<float> velocity(kLong);
  std::vector<float> expected(kLong);
  const int rounds = repeats(18);
  for (int round = 0; round < rounds; ++round) {
    std::vector<float> sum(kLong);
    for (int r = 0; r < session.size(); ++r) {
      add_into(sum, whole_numbers<float>(kLong, static_cast<std::uint64_t>(round * 10 + r)));
    }
    for (std::size_t i = 0; i < sum.size(); ++i) {
      velocity[i] = 0.5F * velocity[i] + sum[i];
      expected[i] -= velocity[i];
    }
    table.add(whole_numbers<float>(kLong, static_cast<std::uint64_t>(round * 10 + session.rank())));
    ASSERT_EQ(all_of<float>(table), expected) << "round " << round;
  }
  if (!has_neighbours_and_others(session)) {
    EXPECT_EQ(combined_everywhere(session, table), 0);
    return;
  }
  // A rank waits for the other ranks of its host only as long as sending takes, so it is not certain which adds are
  // combined.
  const std::vector<float> nothing(kLong);
  for (int round = 0; round < 500 && combined_everywhere(session, table) == 0; ++round) table.add(nothing);
  EXPECT_GT(combined_everywhere(session, table), 0);
}

CASE_FOR(Combine, AsynchronousAddsAreExactWhicheverRankSendsThem, 2) {
  const ArrayTable table = session.create_array(kLong, {.dtype = DType::int64});
  const MatrixTable matrix = session.create_matrix(600, 100, {.dtype = DType::int32});
  const int adds = repeats(18);
  std::vector<std::int64_t> expected(kLong);
  std::vector<std::int32_t> expected_rows(60'000);
  for (int i = 0; i < adds; ++i) {
    for (int r = 0; r < session.size(); ++r) {
      add_into(expected, whole_numbers<std::int64_t>(kLong, static_cast<std::uint64_t>(i * 10 + r)));
      add_into(expected_rows, whole_numbers<std::int32_t>(60'000, static_cast<std::uint64_t>(i * 10 + r)));
    }
  }
  session.barrier();
  for (int i = 0; i < adds; ++i) {
    const auto seed = static_cast<std::uint64_t>(i * 10 + session.rank());
    table.add(whole_numbers<std::int64_t>(kLong, seed));
    matrix.add(whole_numbers<std::int32_t>(60'000, seed));
  }
  session.barrier();
  EXPECT_EQ(all_of<std::int64_t>(table), expected);
  EXPECT_EQ(all_of<std::int32_t>(matrix), expected_rows);
}

CASE_FOR(Combine, AddsWithOtherRatesAreNotMixed, 2) {
  const ArrayTable table = session.create_array(kLong, {.updater = {.rule = "sgd", .learning_rate = 1}});
  const std::vector<float> ones(kLong, 1.0F);
  const int adds = repeats(12);
  session.barrier();
  for (int i = 0; i < adds; ++i) table.add(ones, {.learning_rate = session.rank() + 1});
  session.barrier();
  float expected = 0;
  for (int r = 0; r < session.size(); ++r) expected -= static_cast<float>((r + 1) * adds);
  EXPECT_EQ(all_of<float>(table), std::vector<float>(kLong, expected));
}

CASE_FOR(Combine, ARuleThatIsNoSumSeesEveryAddByItself, 2) {
  const ArrayTable table =
      session.create_array(kLong, {.updater = {.rule = "momentum", .learning_rate = 1, .momentum = 0.5}});
  session.barrier();
  for (int i = 0; i < 4; ++i) table.add(std::vector<float>(kLong, 1.0F));
  session.barrier();
  float velocity = 0;
  float expected = 0;
  for (int i = 0; i < 4 * session.size(); ++i) {
    velocity = 0.5F * velocity + 1.0F;
    expected -= velocity;
  }
  EXPECT_EQ(all_of<float>(table), std::vector<float>(kLong, expected));
  EXPECT_EQ(table.stats().combined, 0U);
}

}  // namespace pleiad::conformance

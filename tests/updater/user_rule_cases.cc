// Update rules that a user registers, on tables of this host and of other hosts.
#include <stdexcept>

#include "tests/table/tables.h"

namespace pleiad::conformance {

namespace {

constexpr std::int64_t kSize = 100'000;  // four stripes of floats

// The rule "test_meddling" calls this function on the thread that adds.
thread_local std::function<void()> meddle;

void register_rules() {
  register_rule("test_halving", {.arrays = 1, .numbers = 1}, [](auto u) {
    for (std::size_t i = 0; i < u.value.size(); ++i) {
      u.state[0][i] = u.state[0][i] / 2 + u.delta[i];
      u.value[i] -= static_cast<float>(u.learning_rate) * u.state[0][i];
    }
    u.numbers[0] += 1;
  });
  register_rule("test_plus", {.additive = true}, [](auto u) {
    for (std::size_t i = 0; i < u.value.size(); ++i) u.value[i] += u.delta[i];
  });
  register_rule("test_of_worker", {.worker_arrays = 1}, [](auto u) {
    for (std::size_t i = 0; i < u.value.size(); ++i) {
      u.value[i] += u.delta[i] - u.state[0][i];
      u.state[0][i] = u.delta[i];
    }
  });
  register_rule("test_meddling", {}, [](auto u) {
    if (meddle) meddle();
    for (std::size_t i = 0; i < u.value.size(); ++i) u.value[i] += u.delta[i];
  });
  register_rule("test_picky", {}, [](auto u) {
    if (u.delta[0] < 0) throw std::runtime_error("a delta below zero");
    for (std::size_t i = 0; i < u.value.size(); ++i) u.value[i] += u.delta[i];
  });
}

}  // namespace

CASE(UserRule, StateStaysBesideTheValues) {
  register_rules();
  const ArrayTable array = session.create_array(kSize, {.updater = {.rule = "test_halving", .learning_rate = 2}});
  const MatrixTable matrix = session.create_matrix(40, 6, {.updater = {.rule = "test_halving", .learning_rate = 2}});
  session.barrier();
  const std::vector<RowId> ids = {3, 39};
  for (int i = 0; i < 3; ++i) {
    array.add(std::vector<float>(kSize, 1.0F));
    matrix.add_rows(ids, std::vector<float>(12, 1.0F));
  }
  session.barrier();
  float state = 0;
  float expected = 0;
  for (int i = 0; i < 3 * session.size(); ++i) {
    state = state / 2 + 1;
    expected -= 2 * state;
  }
  EXPECT_EQ(all_of<float>(array), std::vector<float>(kSize, expected));
  EXPECT_EQ(rows_of<float>(matrix, ids), std::vector<float>(12, expected));
  EXPECT_EQ(rows_of<float>(matrix, {0}), std::vector<float>(6, 0.0F));
}

CASE_FOR(UserRule, MayNotCallTables, 1, true) {
  register_rules();
  const ArrayTable table = session.create_array(4, {.updater = {.rule = "test_meddling"}});
  const ArrayTable other = session.create_array(4);
  std::vector<float> out(4);
  const std::vector<float> ones(4, 1);
  const std::vector<ArrayPart> parts = {{.at = 0, .delta = ones}};
  const std::vector<std::function<void()>> calls = {[&] { other.get(out); }, [&] { other.add(ones); },
                                                    [&] { other.add_parts(parts); }, [&] { other.step(parts); }};
  for (const auto& call : calls) {
    meddle = [&] { EXPECT_TRUE(mentions(message_of<StateError>(call), {"must not call tables"})); };
    table.add(ones);
  }
  meddle = {};
  session.barrier();
  EXPECT_EQ(all_of<float>(table)[0], static_cast<float>(4 * session.size()));
  EXPECT_EQ(all_of<float>(other)[0], 0);
}

CASE(UserRule, AnAdditiveRuleIsExactWhicheverRankSendsItsAdds) {
  register_rules();
  const ArrayTable table = session.create_array(kSize, {.dtype = DType::float64, .updater = {.rule = "test_plus"}});
  session.barrier();
  for (int i = 0; i < 5; ++i) table.add(std::vector<double>(kSize, session.rank() + 1));
  session.barrier();
  EXPECT_EQ(all_of<double>(table), std::vector<double>(kSize, 2.5 * session.size() * (session.size() + 1)));
}

CASE(UserRule, EachWorkerHasItsOwnState) {
  register_rules();
  const ArrayTable table = session.create_array(kSize, {.updater = {.rule = "test_of_worker"}});
  session.barrier();
  for (int i = 1; i <= 3; ++i) table.add(std::vector<float>(kSize, static_cast<float>(i * (session.rank() + 1))));
  session.barrier();
  const float expected = 1.5F * static_cast<float>(session.size() * (session.size() + 1));
  EXPECT_EQ(all_of<float>(table), std::vector<float>(kSize, expected));
}

CASE(UserRule, RoundsShowItTheSum) {
  register_rules();
  const ArrayTable table = session.create_array(
      kSize, {.clock = "sync", .apply = "round", .updater = {.rule = "test_halving", .learning_rate = 1}});
  float state = 0;
  float expected = 0;
  for (int i = 0; i < 4; ++i) {
    table.add(std::vector<float>(kSize, 1.0F));
    state = state / 2 + static_cast<float>(session.size());
    expected -= state;
    ASSERT_EQ(all_of<float>(table), std::vector<float>(kSize, expected));
  }
}

CASE(UserRule, ARuleThatThrowsIsAnErrorAndTheTableContinues) {
  register_rules();
  const ArrayTable table = session.create_array(kSize, {.name = "weights", .updater = {.rule = "test_picky"}});
  const std::string text = message_of<RuleError>([&] { table.add(std::vector<float>(kSize, -1.0F)); });
  EXPECT_TRUE(mentions(text, {"table \"weights\"", "rule \"test_picky\"", "a delta below zero", "in part", "rank"}));
  session.barrier();
  table.add(std::vector<float>(kSize, 1.0F));
  session.barrier();
  EXPECT_EQ(all_of<float>(table), std::vector<float>(kSize, static_cast<float>(session.size())));
}

CASE_FOR(UserRule, OneThatThrowsInASynchronousTableEndsTheStepOfAll, 2) {
  register_rules();
  const ArrayTable table =
      session.create_array(kSize, {.clock = "sync", .apply = "round", .updater = {.rule = "test_picky"}});
  const auto steps = [&] {
    for (int i = 0; i < 1000; ++i) {
      table.add(std::vector<float>(kSize, i == 3 ? -1.0F : 1.0F));
      (void)all_of<float>(table);
    }
  };
  try {
    steps();
    ADD_FAILURE() << "nobody was told";
  } catch (const RuleError& error) {
    EXPECT_TRUE(mentions(error.what(), {"test_picky", "a delta below zero"}));
  } catch (const OrderError& error) {
    EXPECT_TRUE(mentions(error.what(), {"test_picky", "a delta below zero"}));
  }
}

CASE(UserRule, WhatCannotBeIsRefused) {
  register_rules();
  const auto nothing = [](auto) {};
  EXPECT_TRUE(mentions(message_of<InvalidArgument>([&] { register_rule("adam", {}, nothing); }), {"adam", "built-in"}));
  EXPECT_TRUE(
      mentions(message_of<InvalidArgument>([&] { register_rule("x", {.arrays = 5}, nothing); }), {"at most 4"}));
  EXPECT_TRUE(
      mentions(message_of<InvalidArgument>([&] { (void)session.create_array(3, {.updater = {.rule = "test_plush"}}); }),
               {"unknown updater", "test_plus", "did you mean"}));
  session.barrier();
  EXPECT_TRUE(mentions(message_of<InvalidArgument>([&] {
                         (void)session.create_array(3, {.dtype = DType::int32, .updater = {.rule = "test_plus"}});
                       }),
                       {"int32", "\"sum\" only"}));
}

}  // namespace pleiad::conformance

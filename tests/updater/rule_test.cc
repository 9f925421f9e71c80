#include "tests/updater/shard.h"

namespace pleiad {
namespace {

// ---------------------------------------------------------------------------------------------------------------------
// Guarantees of every rule. These cases also test each new name in the list.

class Conformance : public testing::TestWithParam<std::string> {
 protected:
  [[nodiscard]] bool is_sum() const { return resolve_dialect(options()).rule == "sum"; }
  [[nodiscard]] UpdaterOptions options() const { return usual(GetParam()); }
  // With scale, clip and decay if the rule takes them.
  [[nodiscard]] UpdaterOptions shaped_options() const {
    return is_sum() || resolve_dialect(options()).prescaled ? options() : usual(GetParam(), shaped);
  }
  [[nodiscard]] std::unique_ptr<Updater> make(DType dtype = DType::float32) const {
    return make_updater(options(), dtype);
  }
  [[nodiscard]] Rates rates() const { return merge(resolve_dialect(options()), {}); }
};

std::vector<std::string> all_names() {
  auto names = updater_names();
  for (auto& name : dialect_names()) names.push_back(std::move(name));
  return names;
}

INSTANTIATE_TEST_SUITE_P(Updater, Conformance, testing::ValuesIn(all_names()),
                         [](const auto& param) { return test_name(param.param); });

TEST_P(Conformance, KeepsNoMoreStateThanAnUpdateCarries) {
  const StateLayout layout = make()->state();
  EXPECT_GE(std::min({layout.per_element, layout.per_worker, layout.per_unit}), 0);
  EXPECT_LE(layout.per_element + layout.per_worker, static_cast<int>(kMaxStates));
}

TEST_P(Conformance, AnUpdateOfNothingChangesNothing) {
  const auto rule = make();
  Shard<float> shard(*rule, {});
  const Shard<float> before = shard;
  shard.add(*rule, {}, rates());
  EXPECT_EQ(shard, before);
}

TEST_P(Conformance, WritesNothingBesideTheElementsOfTheUpdate) {
  const auto rule = make();
  for (const std::size_t count : {1u, 15u, 16u, 31u, 100u}) {
    Shard<float> shard(*rule, random_values<float>(count + 64));
    const Shard<float> before = shard;
    const auto delta = random_values<float>(count + 64);
    Update<float> update{
        .value = shard.values.data() + 32, .delta = delta.data() + 32, .count = count, .rates = rates()};
    std::size_t k = 0;
    for (auto& state : shard.per_element) update.state[k++] = state.data() + 32;
    for (auto& state : shard.per_worker[0]) update.state[k++] = state.data() + 32;
    update.unit = shard.per_unit.data();
    rule->apply(update);
    const auto expect_margins = [&](const std::vector<float>& now, const std::vector<float>& then) {
      EXPECT_TRUE(std::equal(now.begin(), now.begin() + 32, then.begin()));
      EXPECT_TRUE(std::equal(now.end() - 32, now.end(), then.end() - 32));
    };
    expect_margins(shard.values, before.values);
    for (k = 0; k < shard.per_element.size(); ++k) expect_margins(shard.per_element[k], before.per_element[k]);
    for (k = 0; k < shard.per_worker[0].size(); ++k) expect_margins(shard.per_worker[0][k], before.per_worker[0][k]);
  }
}

TEST_P(Conformance, TheBitsDoNotDependOnHowTheElementsAreSplit) {
  for (const UpdaterOptions& wanted : {options(), shaped_options()}) {
    const auto rule = make_updater(wanted, DType::float32);
    const auto start = random_values<float>(1000);
    for (const std::ptrdiff_t cut : {1, 7, 16, 500, 983, 999}) {
      Shard<float> whole(*rule, start, 2);
      Shard<float> left(*rule, {start.begin(), start.begin() + cut}, 2);
      Shard<float> right(*rule, {start.begin() + cut, start.end()}, 2);
      for (const std::size_t worker : {0u, 1u, 0u, 0u}) {
        const auto delta = random_values<float>(1000);
        whole.add(*rule, delta, rates(), worker);
        left.add(*rule, {delta.begin(), delta.begin() + cut}, rates(), worker);
        right.add(*rule, {delta.begin() + cut, delta.end()}, rates(), worker);
      }
      auto joined = left.values;
      joined.insert(joined.end(), right.values.begin(), right.values.end());
      EXPECT_EQ(whole.values, joined) << "cut at " << cut;
    }
  }
}

TEST_P(Conformance, LargeAndTinyGradientsGiveFiniteValues) {
  const auto rule = make();
  for (const float size : {1e30f, 1e15f, 1e-15f, 1e-30f, 1e-42f, 0.0f}) {
    Shard<float> shard(*rule, random_values<float>(100), 1);
    for (int step = 0; step < 5; ++step) {
      auto delta = random_values<float>(100);
      for (float& d : delta) d *= size;
      shard.add(*rule, delta, rates());
    }
    for (const float value : shard.values) ASSERT_TRUE(std::isfinite(value)) << value << " from gradients of " << size;
  }
}

TEST_P(Conformance, ZeroGradientsMoveNothingEvenWhereEpsilonIsZero) {
  UpdaterOptions wanted = options();
  wanted.epsilon = 0;
  const auto rule = make_updater(wanted, DType::float32);
  Shard<float> shard(*rule, random_values<float>(100));
  const auto before = shard.values;
  for (int step = 0; step < 3; ++step) shard.add(*rule, std::vector<float>(100), rates());
  EXPECT_EQ(shard.values, before);
}

TEST_P(Conformance, NaNStaysVisibleAndInItsElement) {
  const auto rule = make_updater(shaped_options(), DType::float32);
  Shard<float> shard(*rule, random_values<float>(50));
  auto delta = random_values<float>(50);
  delta[20] = std::numeric_limits<float>::quiet_NaN();
  shard.add(*rule, delta, rates());
  for (std::size_t i = 0; i < 50; ++i) EXPECT_EQ(std::isnan(shard.values[i]), i == 20) << i;
}

TEST_P(Conformance, AscendStepsInTheOppositeDirection) {
  UpdaterOptions wanted = options();
  wanted.ascend = true;
  if (is_sum() || GetParam() == "ftrl") {
    EXPECT_THROW(static_cast<void>(make_updater(wanted, DType::float64)), InvalidArgument);
    return;
  }
  const auto down = make(DType::float64);
  const auto up = make_updater(wanted, DType::float64);
  Shard<double> descended(*down, random_values<double>(100), 2);
  for (const std::size_t worker : {0u, 1u, 0u}) descended.add(*down, random_values<double>(100), rates(), worker);
  Shard<double> ascended = descended;
  const auto start = descended.values;
  const auto delta = random_values<double>(100);
  descended.add(*down, delta, rates(), 1);
  ascended.add(*up, delta, rates(), 1);
  for (std::size_t i = 0; i < 100; ++i) {
    EXPECT_NE(descended.values[i], start[i]);
    const double step = start[i] - descended.values[i];
    EXPECT_NEAR(ascended.values[i] - start[i], step, 1e-14 * (1 + std::abs(start[i]) + std::abs(step)));
  }
}

TEST_P(Conformance, ObjectsOfTheSameOptionsMayTakeTurns) {
  const auto one = make(), other = make();
  const auto start = random_values<float>(100);
  Shard<float> alone(*one, start), turns(*one, start);
  for (int step = 0; step < 6; ++step) {
    const auto delta = random_values<float>(100);
    alone.add(*one, delta, rates());
    turns.add(step % 2 == 0 ? *other : *one, delta, rates());
  }
  EXPECT_EQ(alone, turns);
}

TEST_P(Conformance, AnAdditiveRuleMayBeGivenTheSumOfTheDeltas) {
  const auto rule = make(DType::float64);
  if (!rule->additive()) return;
  EXPECT_EQ(rule->state().per_element + rule->state().per_worker + rule->state().per_unit, 0);
  Shard<double> each(*rule, random_values<double>(100));
  Shard<double> once = each;
  const auto first = random_values<double>(100), second = random_values<double>(100);
  auto both = first;
  for (std::size_t i = 0; i < 100; ++i) both[i] += second[i];
  each.add(*rule, first, rates());
  each.add(*rule, second, rates());
  once.add(*rule, both, rates());
  for (std::size_t i = 0; i < 100; ++i) EXPECT_NEAR(each.values[i], once.values[i], 1e-14);
}

TEST_P(Conformance, OnlySumTakesIntegers) {
  for (const DType dtype : {DType::int32, DType::int64}) {
    if (is_sum()) {
      EXPECT_NE(make(dtype), nullptr);
    } else {
      EXPECT_THROW(static_cast<void>(make(dtype)), InvalidArgument);
      EXPECT_THROW(make()->apply(Update<std::int32_t>{}), InternalError);
      EXPECT_THROW(make()->apply(Update<std::int64_t>{}), InternalError);
    }
  }
}

// ---------------------------------------------------------------------------------------------------------------------

template <class T>
void expect_wrapping_sum() {
  const auto sum = make_updater({.rule = "sum"}, dtype_of<T>);
  constexpr T kMost = std::numeric_limits<T>::max(), kLeast = std::numeric_limits<T>::min();
  for (const std::size_t count : counts()) {
    Shard<T> shard(*sum, std::vector<T>(count, kMost));
    shard.add(*sum, std::vector<T>(count, 1), {});
    EXPECT_EQ(shard.values, std::vector<T>(count, kLeast));
    shard.add(*sum, std::vector<T>(count, -3), {});
    EXPECT_EQ(shard.values, std::vector<T>(count, kMost - 2));
    shard.add(*sum, std::vector<T>(count, -kMost), {});
    EXPECT_EQ(shard.values, std::vector<T>(count, -2));
  }
}

TEST(Sum, IntegersWrapAround) {
  expect_wrapping_sum<std::int32_t>();
  expect_wrapping_sum<std::int64_t>();
}

TEST(Sgd, IsAdditiveWithoutDecayAndClipOnly) {
  const auto additive = [](const UpdaterOptions& options) { return make_updater(options, DType::float32)->additive(); };
  EXPECT_TRUE(additive({.rule = "sgd", .scale = 3}));
  EXPECT_TRUE(additive({.rule = "multiverso/sgd"}));
  EXPECT_FALSE(additive({.rule = "sgd", .weight_decay = 0.1}));
  EXPECT_FALSE(additive({.rule = "sgd", .clip_low = -1, .clip_high = 1}));
  EXPECT_FALSE(additive({.rule = "momentum"}));
}

TEST(Sgd, RoundsTheProductSoThatTheBitsAreTheSameOnEveryCpu) {
  const UpdaterOptions options = usual("sgd");
  const auto rule = make_updater(options, DType::float32);
  Shard<float> shard(*rule, random_values<float>(1000));
  const auto start = shard.values;
  const auto delta = random_values<float>(1000);
  shard.add(*rule, delta, merge(options, {}));
  for (std::size_t i = 0; i < 1000; ++i) {
    const volatile float product = 0.05f * delta[i];
    EXPECT_EQ(shard.values[i], start[i] - product);
  }
}

TEST(StateLayouts, HoldTheStateThatTheVariantsNeed) {
  struct Expected {
    UpdaterOptions options;
    StateLayout layout;
  };
  const Expected expected[] = {
      {{.rule = "sum"}, {}},
      {{.rule = "sgd"}, {}},
      {{.rule = "momentum"}, {.per_element = 1}},
      {{.rule = "nesterov"}, {.per_element = 1}},
      {{.rule = "adagrad"}, {.per_element = 1}},
      {{.rule = "adagrad", .per_worker = true}, {.per_worker = 1}},
      {{.rule = "multiverso/adagrad"}, {.per_worker = 1}},
      {{.rule = "adam"}, {.per_element = 2, .per_unit = 1}},
      {{.rule = "adam", .bias_correction = false}, {.per_element = 2}},
      {{.rule = "adamax"}, {.per_element = 2, .per_unit = 1}},
      {{.rule = "adamax", .bias_correction = false}, {.per_element = 2}},
      {{.rule = "adamw"}, {.per_element = 2, .per_unit = 1}},
      {{.rule = "rmsprop"}, {.per_element = 1}},
      {{.rule = "adadelta"}, {.per_element = 2}},
      {{.rule = "ftrl"}, {.per_element = 2}},
      {{.rule = "dcasgd"}, {.per_worker = 1, .per_worker_starts_as_value = true}},
      {{.rule = "multiverso/dcasgda"}, {.per_element = 1, .per_worker = 1, .per_worker_starts_as_value = true}},
  };
  for (const auto& [options, layout] : expected) {
    const StateLayout got = make_updater(options, DType::float32)->state();
    EXPECT_EQ(got.per_element, layout.per_element) << options.rule;
    EXPECT_EQ(got.per_worker, layout.per_worker) << options.rule;
    EXPECT_EQ(got.per_unit, layout.per_unit) << options.rule;
    EXPECT_EQ(got.per_worker_starts_as_value, layout.per_worker_starts_as_value) << options.rule;
  }
}

TEST(Workers, KeepTheirOwnAdaGradHistory) {
  const UpdaterOptions options = usual("multiverso/adagrad");
  const auto rule = make_updater(options, DType::float32);
  Shard<float> shard(*rule, {0}, 2);
  const Rates rates = merge(resolve_dialect(options), {});
  shard.add(*rule, {0.05f}, rates, 0);
  shard.add(*rule, {0.1f}, rates, 1);
  EXPECT_NEAR(shard.per_worker[0][0][0], 1, 1e-5);
  EXPECT_NEAR(shard.per_worker[1][0][0], 4, 1e-5);
  EXPECT_NEAR(shard.values[0], -0.4, 1e-5);  // a first step has length rho, whatever the other worker did
}

TEST(Workers, DelayIsCompensatedForOtherWorkersChangesOnly) {
  const UpdaterOptions options = usual("dcasgd");
  const auto rule = make_updater(options, DType::float64);
  const Rates rates = merge(options, {});
  Shard<double> shard(*rule, {1}, 2);
  shard.add(*rule, {2}, rates, 0);
  shard.add(*rule, {2}, rates, 0);
  EXPECT_NEAR(shard.values[0], 1 - 2 * 0.05 * 2, 1e-14);
  EXPECT_EQ(shard.per_worker[1][0][0], 1);
  shard.add(*rule, {3}, rates, 1);
  EXPECT_NEAR(shard.values[0], 0.8 - 0.05 * (3 + 0.7 * 9 * (0.8 - 1)), 1e-14);
  EXPECT_EQ(shard.per_worker[1][0][0], shard.values[0]);
  EXPECT_NE(shard.per_worker[0][0][0], shard.values[0]);
}

TEST(Adam, EachUnitCountsItsOwnSteps) {
  const UpdaterOptions options = usual("adam");
  const auto rule = make_updater(options, DType::float64);
  const Rates rates = merge(options, {});
  Shard<double> often(*rule, {0}), late(*rule, {0});
  for (int step = 0; step < 100; ++step) often.add(*rule, {1}, rates);
  late.add(*rule, {1}, rates);
  EXPECT_EQ(often.per_unit[0], 100);
  EXPECT_EQ(late.per_unit[0], 1);
  EXPECT_NEAR(late.values[0], -0.05 / 1.1, 1e-12);         // the correction makes a first step as long
  EXPECT_NEAR(often.values[0], -100 * 0.05 / 1.1, 1e-12);  // as all others, while the gradient stays
}

TEST(Prescaled, ARateOfZeroThatReachesARuleMovesNothing) {
  for (const char* name : {"adagrad", "adam", "adamax", "adadelta", "dcasgd", "ftrl", "rmsprop"}) {
    const auto rule = make_updater(usual(name, prescaled), DType::float32);
    Shard<float> shard(*rule, {1, 2});
    shard.add(*rule, {3, 0}, {.learning_rate = 0, .rho = 0.1});
    EXPECT_EQ(shard.values, (std::vector<float>{1, 2})) << name;
  }
}

TEST(Merge, OptionsOfAnAddOverrideThoseOfTheTable) {
  const UpdaterOptions table = usual("momentum");
  const Rates unset = merge(table, {});
  EXPECT_EQ(unset.learning_rate, 0.05);
  EXPECT_EQ(unset.momentum, 0.9);
  EXPECT_EQ(unset.rho, 0.2);
  EXPECT_EQ(unset.lambda, 0.7);
  const Rates all = merge(table, {.learning_rate = 1, .momentum = 0, .rho = 3, .lambda = 0});
  EXPECT_EQ(all.learning_rate, 1);
  EXPECT_EQ(all.momentum, 0);
  EXPECT_EQ(all.rho, 3);
  EXPECT_EQ(all.lambda, 0);
}

TEST(Merge, AnAddsBadNumberIsRefused) {
  const double nan = std::nan("");
  UpdaterOptions table = usual("momentum");
  const auto merged = [&](std::optional<double> AddOptions::* field, double value) {
    AddOptions add;
    add.*field = value;
    return merge(table, add);
  };
  EXPECT_THROW(merged(&AddOptions::learning_rate, nan), InvalidArgument);
  EXPECT_THROW(merged(&AddOptions::learning_rate, -1), InvalidArgument);
  EXPECT_THROW(merged(&AddOptions::momentum, 1), InvalidArgument);
  EXPECT_THROW(merged(&AddOptions::momentum, nan), InvalidArgument);
  EXPECT_THROW(merged(&AddOptions::rho, -1), InvalidArgument);
  EXPECT_THROW(merged(&AddOptions::lambda, HUGE_VAL), InvalidArgument);
  EXPECT_NO_THROW(merged(&AddOptions::learning_rate, 0));
  table.prescaled = true;
  EXPECT_THROW(merged(&AddOptions::learning_rate, 0), InvalidArgument);
}

TEST(Dialects, AreTheseAndResolveToRules) {
  EXPECT_EQ(dialect_names(), (std::vector<std::string>{
                                 "multiverso/adagrad", "multiverso/dcasgd", "multiverso/dcasgda", "multiverso/default",
                                 "multiverso/momentum_sgd", "multiverso/sgd", "neon/adadelta", "neon/gradient_descent",
                                 "neon/momentum", "singa/adadelta", "singa/adagrad", "singa/adam", "singa/adamax",
                                 "singa/nesterov", "singa/rmsprop", "singa/sgd"}));
  const auto rules = updater_names();
  for (const auto& name : dialect_names()) {
    EXPECT_NE(std::ranges::find(rules, resolve_dialect({.rule = name}).rule), rules.end()) << name;
    EXPECT_NE(make_updater({.rule = name}, DType::float32), nullptr) << name;
  }
}

TEST(Dialects, LeaveWhatTheUserChooses) {
  const UpdaterOptions got = resolve_dialect(usual("singa/sgd", shaped, ascending, uncorrected, damped));
  EXPECT_EQ(got.rule, "momentum");
  EXPECT_TRUE(got.rate_in_velocity);
  EXPECT_FALSE(got.damped) << "the variant is the dialect's";
  EXPECT_FALSE(got.bias_correction);
  EXPECT_TRUE(got.ascend);
  EXPECT_EQ((std::vector{got.learning_rate, got.momentum, got.rho, got.lambda, got.epsilon}),
            (std::vector{0.05, 0.9, 0.2, 0.7, 0.1}));
  EXPECT_EQ((std::vector{got.weight_decay, got.scale, got.clip_low, got.clip_high}),
            (std::vector{0.02, 0.5, -0.8, 1.1}));
}

TEST(Dialects, ARuleOfPleiadsPassesUnchanged) {
  const UpdaterOptions got = resolve_dialect({.rule = "adagrad", .epsilon = 3, .per_worker = true});
  EXPECT_EQ(got.rule, "adagrad");
  EXPECT_EQ(got.epsilon, 3);
  EXPECT_TRUE(got.per_worker);
}

TEST(UpdaterNames, AreInAlphabeticalOrder) {
  EXPECT_EQ(updater_names(), (std::vector<std::string>{"adadelta", "adagrad", "adam", "adamax", "adamw", "dcasgd",
                                                       "ftrl", "momentum", "nesterov", "rmsprop", "sgd", "sum"}));
}

struct Mistake {
  UpdaterOptions options;
  std::string message;  // a part of the message
  DType dtype = DType::float32;
};

TEST(Mistakes, AreRefusedWithTheNameAndTheValueReceived) {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  const Mistake mistakes[] = {
      {{.rule = "adma"}, "unknown updater \"adma\"; known: adadelta, adagrad, adam, adamax, adamw, dcasgd"},
      {{.rule = "adma"}, "(did you mean \"adam\"?)"},
      {{.rule = ""}, "unknown updater \"\""},
      {{.rule = "multiverso/momentum"}, "known: multiverso/adagrad, multiverso/dcasgd"},
      {{.rule = "singa/sdg"}, "(did you mean \"singa/sgd\"?)"},
      {{.rule = "adam"}, "a table of int32 takes the updater \"sum\" only; received \"adam\"", DType::int32},
      {{.rule = "multiverso/sgd"}, "int64 takes the updater \"sum\" only; received \"multiverso/sgd\"", DType::int64},
      {{.rule = "sgd", .learning_rate = nan},
       "updater \"sgd\": learning_rate must be finite and not negative; received nan"},
      {{.rule = "sgd", .learning_rate = inf}, "received inf"},
      {{.rule = "sgd", .learning_rate = -0.5}, "received -0.5"},
      {{.rule = "multiverso/sgd", .learning_rate = 0}, "learning_rate must be above 0 where the delta is prescaled"},
      {{.rule = "momentum", .momentum = 1}, "momentum must be at least 0 and less than 1; received 1"},
      {{.rule = "momentum", .momentum = -0.1}, "momentum must be at least 0 and less than 1; received -0.1"},
      {{.rule = "momentum", .momentum = nan}, "received nan"},
      {{.rule = "adagrad", .rho = -1}, "rho must be finite and not negative; received -1"},
      {{.rule = "dcasgd", .lambda = nan}, "lambda must be finite and not negative; received nan"},
      {{.rule = "adam", .beta1 = 1}, "beta1 must be at least 0 and less than 1; received 1"},
      {{.rule = "adam", .beta2 = 1.5}, "beta2 must be at least 0 and less than 1; received 1.5"},
      {{.rule = "adam", .epsilon = -1e-8}, "epsilon must be finite and not negative; received -1e-08"},
      {{.rule = "adam", .epsilon = nan}, "epsilon must be"},
      {{.rule = "rmsprop", .decay = 1}, "decay must be at least 0 and less than 1; received 1"},
      {{.rule = "ftrl", .l1 = -1}, "l1 must be finite and not negative; received -1"},
      {{.rule = "ftrl", .l2 = nan}, "l2 must be finite and not negative; received nan"},
      {{.rule = "ftrl", .ftrl_beta = inf}, "ftrl_beta must be finite and not negative; received inf"},
      {{.rule = "ftrl", .ascend = true}, "updater \"ftrl\" does not take ascend; it takes prescaled"},
      {{.rule = "adadelta", .epsilon_inside_root = true}, "does not take epsilon_inside_root"},
      {{.rule = "sgd", .weight_decay = -2}, "weight_decay must be finite and not negative; received -2"},
      {{.rule = "sgd", .scale = nan}, "scale must be finite; received nan"},
      {{.rule = "sgd", .clip_low = 2, .clip_high = 1}, "clip_low must be at most clip_high, 1; received 2"},
      {{.rule = "sgd", .clip_low = 0.5}, "clip_low must be at most clip_high, 0; received 0.5"},
      {{.rule = "sgd", .clip_low = nan, .clip_high = 1}, "clip_low must be"},
      {{.rule = "sgd", .clip_high = nan}, "clip_high must be a number; received nan"},
      {{.rule = "sum", .ascend = true}, "updater \"sum\" does not take ascend; it takes no flag"},
      {{.rule = "sgd", .damped = true}, "updater \"sgd\" does not take damped; it takes ascend, prescaled"},
      {{.rule = "adagrad", .rate_in_velocity = true}, "does not take rate_in_velocity"},
      {{.rule = "nesterov", .bias_correction = false}, "does not take bias_correction"},
      {{.rule = "sgd", .epsilon_inside_root = true}, "does not take epsilon_inside_root"},
      {{.rule = "adam", .per_worker = true}, "does not take per_worker"},
      {{.rule = "adam", .adaptive = true}, "does not take adaptive"},
      {{.rule = "sum", .prescaled = true}, "does not take prescaled"},
      {{.rule = "sum", .weight_decay = 0.1}, "updater \"sum\" uses the delta and takes no weight_decay; received 0.1"},
      {{.rule = "multiverso/sgd", .scale = 2}, "updater \"sgd\" uses a prescaled delta and takes no scale; received 2"},
      {{.rule = "multiverso/sgd", .clip_low = -1}, "takes no clip_low; received -1"},
      {{.rule = "multiverso/sgd", .clip_high = 1}, "takes no clip_high; received 1"},
  };
  for (const Mistake& mistake : mistakes) {
    try {
      static_cast<void>(make_updater(mistake.options, mistake.dtype));
      ADD_FAILURE() << mistake.options.rule << " was accepted; expected: " << mistake.message;
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find(mistake.message), std::string::npos)
          << "said: " << error.what() << "\nexpected: " << mistake.message;
    }
  }
}

}  // namespace
}  // namespace pleiad

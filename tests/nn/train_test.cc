// The trainer: the same training on any number of ranks, fused or not, stopped and resumed.
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <limits>

#include "core/random.h"
#include "pleiad/error.h"
#include "pleiad/nn/layers.h"
#include "pleiad/train.h"

namespace pleiad {
namespace {

using nn::Net;
using nn::Phase;
constexpr std::int64_t kSamples = 96;

/// Images whose class shows in their brightness by quarter, with noise.
std::unique_ptr<Samples> samples(bool shuffle = true) {
  const Tensor x(DType::float32, {kSamples, 8, 8, 2});
  const Tensor label(DType::int32, {kSamples});
  const RandomStream noise(11, "noise");
  for (std::int64_t n = 0; n < kSamples; ++n) {
    label.values<std::int32_t>()[n] = static_cast<std::int32_t>(n % 4);
    for (std::int64_t i = 0; i < 128; ++i) {
      const std::int64_t row = i / 16;
      const double bright = row / 2 == n % 4 ? 1 : 0;
      x.values<float>()[n * 128 + i] =
          static_cast<float>(bright + 0.3 * noise.gaussian(static_cast<std::uint64_t>(n * 128 + i)));
    }
  }
  return array_samples({{"x", x}, {"label", label}}, {.shuffle = shuffle});
}

Net cnn(std::uint64_t seed = 4) {
  const nn::Param wide{.init = {.type = "he"}};
  Net net({.seed = seed});
  net.input("label", {}, DType::int32).input("x", {8, 8, 2});
  nn::ConvolutionOptions conv = nn::square(6, 3, 1, 1);
  conv.activation = "relu";
  conv.weight_param = wide;
  net.add("conv", nn::convolution(conv));
  net.add("pool", nn::pooling({.type = "max", .kernel = 2, .stride = 2}));
  net.add("norm", nn::lrn({.size = 3, .alpha = 0.1}));
  net.add("hidden", nn::dense({.out = 16, .activation = "tanh", .weight_param = wide}));
  net.add("drop", nn::dropout({.ratio = 0.2}));
  net.add("out", nn::dense({.out = 4, .weight_param = wide}));
  net.add("loss", nn::softmax_loss(), {.inputs = {"out", "label"}});
  return net;
}

TrainOptions options(const std::string& rule, const std::string& exchange) {
  TrainOptions o{
      .batch = 16, .updater = {.rule = rule, .learning_rate = rule == "adam" ? 0.01 : 0.05}, .exchange = exchange};
  if (rule == "momentum") o.updater.momentum = 0.9;
  o.steps = 20;
  o.display = 1;
  return o;
}

std::vector<double> trace(Trainer& trainer, Samples& from) {
  std::vector<double> losses;
  trainer.run(from, nullptr, nullptr, {.report = [&](const Report& r) {
                losses.push_back(r.metrics[0].second);
                return true;
              }});
  return losses;
}

std::vector<double> trace_of_ranks(int ranks, const std::string& rule, const std::string& exchange) {
  std::vector<double> losses;
  run_cluster(ranks, [&](Session& session) {
    Net net = cnn(session.rank() == 0 ? 4 : 99);  // rank 0's weights count
    {
      Trainer trainer(net, options(rule, exchange), session);
      const auto from = samples();
      const std::vector<double> mine = trace(trainer, *from);
      if (session.rank() == 0) losses = mine;
    }
    session.shutdown();
  });
  return losses;
}

class Ranks : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(Ranks, DoNotChangeTheTraining) {
  const auto [rule, exchange] = GetParam();
  Net net = cnn();
  Trainer alone(net, options(rule, "none"));
  const auto from = samples();
  const std::vector<double> expected = trace(alone, *from);
  ASSERT_EQ(expected.size(), 20U);
  EXPECT_LT(expected.back(), expected.front() * 0.8);
  for (const int ranks : {1, 2, 4}) {
    const std::vector<double> got = trace_of_ranks(ranks, rule, exchange);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_NEAR(got[i], expected[i], 1e-5 * std::max(1.0, expected[i])) << ranks << " ranks, step " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Exchange, Ranks,
                         testing::Combine(testing::Values("sgd", "momentum", "adam"),
                                          testing::Values("all_reduce", "tables")),
                         [](const auto& tested) {
                           return std::string(std::get<0>(tested.param)) + "_" + std::get<1>(tested.param);
                         });

class Rules : public testing::TestWithParam<const char*> {};

TEST_P(Rules, FusedIsAsUnfused) {
  std::vector<std::vector<double>> traces;
  for (const bool fuse : {true, false}) {
    Net net = cnn();
    TrainOptions o = options(GetParam(), "none");
    o.fuse = fuse;
    o.updater.weight_decay = 0.01;
    Trainer trainer(net, o);
    traces.push_back(trace(trainer, *samples()));
  }
  for (std::size_t i = 0; i < traces[0].size(); ++i) EXPECT_NEAR(traces[0][i], traces[1][i], 1e-5) << i;
}

TEST_P(Rules, AResumedRunHasTheSameBits) {
  const auto from = samples();
  Net whole_net = cnn();
  Trainer whole(whole_net, options(GetParam(), "none"));
  const std::vector<double> expected = trace(whole, *from);

  std::vector<std::pair<std::string, Tensor>> saved;
  Net first_net = cnn();
  Trainer first(first_net, options(GetParam(), "none"));
  const bool ended = first.run(*from, nullptr, nullptr, {.stop = [](std::int64_t step) { return step == 7; }});
  EXPECT_FALSE(ended);
  for (const auto& [name, tensor] : first.state()) saved.emplace_back(name, tensor.clone());

  Net resumed_net = cnn(77);  // another seed, until the state is loaded
  Trainer resumed(resumed_net, options(GetParam(), "none"));
  resumed.load_state(saved);
  EXPECT_EQ(resumed.current_step(), 7);
  const std::vector<double> rest = trace(resumed, *samples());
  ASSERT_EQ(rest.size(), 13U);
  for (std::size_t i = 0; i < rest.size(); ++i) EXPECT_EQ(rest[i], expected[i + 7]) << i;
  for (std::size_t p = 0; p < whole_net.parameters().size(); ++p) {
    const Tensor& a = whole_net.parameters()[p].value;
    const Tensor& b = resumed_net.parameters()[p].value;
    for (std::int64_t i = 0; i < a.count(); ++i) ASSERT_EQ(a.at(i), b.at(i)) << whole_net.parameters()[p].name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Rules, testing::Values("sgd", "momentum", "nesterov", "adagrad", "adam"),
                         [](const auto& tested) { return std::string(tested.param); });

TEST(Trainer, LearnsAndTellsAtItsFrequencies) {
  Net net = cnn();
  TrainOptions o = options("momentum", "auto");
  o.updater.learning_rate = 0.02;
  o.steps = 60;
  o.display = 20;
  o.test = 30;
  o.checkpoint = 25;
  Trainer trainer(net, o);
  std::vector<std::int64_t> shown;
  std::vector<std::int64_t> tested;
  std::vector<std::int64_t> saved;
  double accuracy = 0;
  const auto train = samples();
  const auto test = samples(false);
  EXPECT_TRUE(trainer.run(*train, nullptr, test.get(),
                          {.report =
                               [&](const Report& r) {
                                 (r.phase == Phase::train ? shown : tested).push_back(r.step);
                                 EXPECT_GT(r.samples_per_second, 0);
                                 if (r.phase == Phase::test) accuracy = r.metrics[1].second;
                                 return true;
                               },
                           .checkpoint =
                               [&](std::int64_t step) {
                                 saved.push_back(step);
                                 return true;
                               }}));
  EXPECT_EQ(shown, (std::vector<std::int64_t>{20, 40, 60}));
  EXPECT_EQ(tested, (std::vector<std::int64_t>{30, 60}));
  EXPECT_EQ(saved, (std::vector<std::int64_t>{25, 50, 60}));
  EXPECT_GT(accuracy, 0.95);
}

TEST(Trainer, CtrlCEndsTheRunAfterItsStep) {
  Net net = cnn();
  TrainOptions o = options("sgd", "none");
  o.steps = 1000;
  Trainer trainer(net, o);
  const auto from = samples();
  EXPECT_FALSE(trainer.run(*from, nullptr, nullptr, {.stop = [](std::int64_t step) {
    if (step == 5) std::raise(SIGINT);
    return false;
  }}));
  EXPECT_EQ(trainer.current_step(), 5);
}

TEST(Trainer, AStopOnOneRankStopsAll) {
  run_cluster(2, [](Session& session) {
    Net net = cnn();
    {
      Trainer trainer(net, options("sgd", "all_reduce"), session);
      const auto from = samples();
      EXPECT_FALSE(trainer.run(*from, nullptr, nullptr,
                               {.stop = [&](std::int64_t step) { return session.rank() == 1 && step == 3; }}));
      EXPECT_EQ(trainer.current_step(), 3);
    }
    session.shutdown();
  });
}

TEST(Trainer, ALossThatIsNoNumberNamesStepAndLayer) {
  Net net = cnn();
  TrainOptions o = options("sgd", "none");
  o.check_finite = true;
  Trainer trainer(net, o);
  net.parameter("hidden/weight").value.values<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  const auto from = samples();
  try {
    (void)trace(trainer, *from);
    FAIL();
  } catch (const StateError& error) {
    EXPECT_NE(std::string(error.what()).find("step 0"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("\"hidden\""), std::string::npos) << error.what();
  }
}

TEST(Trainer, RefusesWhatDoesNotFit) {
  Net net = cnn();
  EXPECT_THROW(Trainer(net, {.exchange = "allreduce"}), InvalidArgument);
  EXPECT_THROW(Trainer(net, {.exchange = "tables"}), InvalidArgument);
  EXPECT_THROW(Trainer(net, {.updater = {.rule = "adma"}}), InvalidArgument);
  EXPECT_THROW(Trainer(net, {.batch = 0}), InvalidArgument);
  Trainer trainer(net, options("sgd", "none"));
  const auto wrong = array_samples({{"x", Tensor(DType::float32, {4, 7})}, {"label", Tensor(DType::int32, {4})}});
  EXPECT_THROW((void)trainer.run(*wrong), InvalidArgument);
  EXPECT_THROW(trainer.load_state({}), InvalidArgument);
  EXPECT_THROW((void)trainer.evaluate(*wrong, Phase::test), InvalidArgument);
}

}  // namespace
}  // namespace pleiad

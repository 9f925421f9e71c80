// The trainer: the training is the same on any number of ranks, fused or not, interrupted and resumed.
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <limits>
#include <map>

#include "pleiad/error.h"
#include "tests/file/folder.h"
#include "tests/train/small_run.h"

namespace pleiad {
namespace {

using namespace pleiad::test;
using nn::Net;
using nn::Phase;

std::vector<double> trace_of_ranks(int ranks, const std::string& rule, const std::string& exchange,
                                   bool batch_norm = false) {
  std::vector<double> losses;
  run_cluster(ranks, [&](Session& session) {
    Net net = cnn(session.rank() == 0 ? 4 : 99, batch_norm);  // the weights of rank 0 are used
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

TEST(BatchNorm, UsesTheWholeBatchOnAnyNumberOfRanks) {
  for (const char* rule : {"momentum", "adam"}) {
    Net net = cnn(4, true);
    Trainer alone(net, options(rule, "none"));
    const std::vector<double> expected = trace(alone, *samples());
    for (const char* exchange : {"all_reduce", "tables"}) {
      for (const int ranks : {2, 4}) {
        const std::vector<double> got = trace_of_ranks(ranks, rule, exchange, true);
        ASSERT_EQ(got.size(), expected.size());
        for (std::size_t i = 0; i < got.size(); ++i) {
          EXPECT_NEAR(got[i], expected[i], 1e-5 * std::max(1.0, expected[i]))
              << rule << ", " << ranks << " ranks, " << i;
        }
      }
    }
  }
}

TEST(BatchNorm, LeavesABiasBeforeItAsItIs) {
  Net net = cnn(4, true);
  const Tensor before = net.parameter("conv/bias").value.clone();
  Trainer trainer(net, options("adam", "none"));
  (void)trace(trainer, *samples());
  for (std::int64_t i = 0; i < before.count(); ++i) EXPECT_EQ(net.parameter("conv/bias").value.at(i), before.at(i));
  for (const double gradient : net.parameter("conv/bias").gradient.values<float>()) EXPECT_EQ(gradient, 0);
  // With an activation between them, the bias has a gradient.
  Net other = cnn(4, false);
  Trainer second(other, options("adam", "none"));
  (void)trace(second, *samples());
  EXPECT_NE(other.parameter("conv/bias").value.at(0), before.at(0));
}

TEST(Tables, WithoutAClockAlsoTrainAndAreSavedCompletely) {
  run_cluster(2, [](Session& session) {
    Net net = cnn();
    {
      TrainOptions o = options("momentum", "tables");
      o.clock = "async";
      o.updater.learning_rate = 0.02;
      o.steps = 64;
      o.display = 32;
      Trainer trainer(net, o, session);
      const std::vector<double> losses = trace(trainer, *samples());
      EXPECT_LT(losses.back(), losses.front());
      // The ranks' parameters differ during training, but the state is the same on all ranks.
      double sum = 0;
      for (const auto& [name, tensor] : trainer.state()) {
        for (std::int64_t i = 0; i < tensor.count(); ++i) sum += tensor.at(i);
      }
      std::vector<double> both = {sum};
      session.all_reduce(both);
      EXPECT_DOUBLE_EQ(both[0], 2 * sum);
      EXPECT_THROW(Trainer(
                       net,
                       [] {
                         TrainOptions a = options("sgd", "all_reduce");
                         a.clock = "async";
                         return a;
                       }(),
                       session),
                   InvalidArgument);
    }
    session.shutdown();
  });
}

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

TEST_P(Rules, AResumedRunIsBitIdentical) {
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

  Net resumed_net = cnn(77);  // a different seed, which load_state replaces
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

TEST(Trainer, LearnsAndReportsAtItsFrequencies) {
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

TEST(Trainer, CtrlCSavesIfCheckpointsAreEnabled) {
  const Folder folder;
  Net net = cnn();
  TrainOptions o = options("sgd", "none");
  o.steps = 1000;
  o.checkpoint = 400;
  o.checkpoint_folder = folder.path();
  Trainer trainer(net, o);
  const auto from = samples();
  EXPECT_FALSE(trainer.run(*from, nullptr, nullptr, {.stop = [](std::int64_t step) {
    if (step == 5) std::raise(SIGINT);
    return false;
  }}));
  EXPECT_EQ(folder.names(), std::vector<std::string>{"step-00000005"});
}

TEST(Trainer, ValidatesAndTestsWithSoManyBatchesAndTheCallerMayStopIt) {
  Net net = cnn();
  TrainOptions o = options("momentum", "none");
  o.display = 0;
  o.validate = 4;
  o.validate_batches = 2;
  o.test = 6;
  o.test_batches = 3;
  Trainer trainer(net, o);
  const auto train = samples();
  const auto other = samples(false);
  std::vector<std::pair<Phase, std::int64_t>> told;
  EXPECT_FALSE(trainer.run(*train, other.get(), other.get(), {.report = [&](const Report& r) {
    told.emplace_back(r.phase, r.step);
    return !(r.phase == Phase::validate && r.step == 12);
  }}));
  EXPECT_EQ(
      told,
      (std::vector<std::pair<Phase, std::int64_t>>{
          {Phase::validate, 4}, {Phase::test, 6}, {Phase::validate, 8}, {Phase::validate, 12}, {Phase::test, 12}}));
  EXPECT_EQ(trainer.current_step(), 12);
  // Averages over the requested number of batches, which are the first ones.
  const Report two = trainer.evaluate(*other, Phase::test, 2);
  const Report all = trainer.evaluate(*other, Phase::test);
  EXPECT_EQ(two.metrics[0].first, "loss");
  EXPECT_NE(two.metrics[0].second, all.metrics[0].second);
}

TEST(Trainer, ReportsTheTopKAccuracy) {
  Net net({.seed = 2});
  net.input("label", {}, DType::int32).input("x", {8, 8, 2});
  net.add("scores", nn::dense({.out = 4, .weight_param = {.init = {.type = "he"}}}));
  net.add("top1", nn::softmax_loss(), {.inputs = {"scores", "label"}});
  net.add("top3", nn::softmax_loss({.top_k = 3}), {.inputs = {"scores", "label"}, .phases = {Phase::test}});
  net.add("top4", nn::softmax_loss({.top_k = 4}), {.inputs = {"scores", "label"}, .phases = {Phase::test}});
  Trainer trainer(net, options("sgd", "none"));
  const auto from = samples(false);
  const Report report = trainer.evaluate(*from, Phase::test);
  std::map<std::string, double> metrics(report.metrics.begin(), report.metrics.end());
  // Computed by hand: how often the label's score is among the largest.
  double one = 0;
  double three = 0;
  for (std::int64_t b = 0; b < kSamples / 16; ++b) {
    from->fill(net, b * 16, 16);
    net.forward(Phase::test);
    const Tensor scores = net.output("scores");
    for (std::int64_t n = 0; n < 16; ++n) {
      const auto label = static_cast<std::int64_t>(net.input_tensor("label").at(n));
      int above = 0;
      for (std::int64_t k = 0; k < 4; ++k) above += scores.at(n * 4 + k) > scores.at(n * 4 + label) ? 1 : 0;
      one += above < 1 ? 1 : 0;
      three += above < 3 ? 1 : 0;
    }
  }
  EXPECT_NEAR(metrics.at("top1/accuracy"), one / kSamples, 1e-6);
  EXPECT_NEAR(metrics.at("top3/accuracy"), three / kSamples, 1e-6);
  EXPECT_NEAR(metrics.at("top4/accuracy"), 1, 1e-6);
}

TEST(Trainer, ALabelOutOfRangeNamesTheLayerAndTheLabel) {
  for (const std::int32_t bad : {-1, 4}) {
    Net net = cnn();
    Trainer trainer(net, options("sgd", "none"));
    auto all = images();
    all[1].second.values<std::int32_t>()[5] = bad;
    const auto from = array_samples(all, {.shuffle = false});
    expect_error<InvalidArgument>([&] { (void)trainer.run(*from); }, {"\"loss\"", std::to_string(bad), "3"});
  }
}

TEST(Trainer, ALossThatIsNaNOnOneRankEndsAllRanksWithTheSameMessage) {
  run_cluster(2, [](Session& session) {
    Net net = cnn();
    {
      TrainOptions o = options("sgd", "all_reduce");
      o.check_finite = true;
      Trainer trainer(net, o, session);
      if (session.rank() == 1)
        net.parameter("out/bias").value.values<float>()[1] = std::numeric_limits<float>::infinity();
      const auto from = samples();
      expect_error<StateError>([&] { (void)trainer.run(*from); }, {"step 0", "on rank 1", "\"out\""});
    }
    session.shutdown();
  });
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

TEST(Trainer, ALossThatIsNaNNamesStepAndLayer) {
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

/// The identity, which throws in backward.
class Failing final : public nn::Layer {
 public:
  [[nodiscard]] std::string kind() const override { return "failing"; }
  [[nodiscard]] nn::Shapes outputs(const nn::Shapes& in) const override { return in; }
  void forward(nn::Pass& pass) override { pass.y[0].copy_from(pass.x[0]); }
  void backward(nn::Pass&) override { throw StateError("this layer fails"); }
};

TEST(Trainer, ALayerThatFailsInBackwardEndsTheRunDuringAnExchange) {
  for (const char* exchange : {"all_reduce", "tables"}) {
    run_cluster(2, [&](Session& session) {
      Net net({.seed = 3});
      net.input("label", {}, DType::int32).input("x", {8, 8, 2});
      net.add("first", nn::dense({.out = 64}));
      net.add("failing", std::make_unique<Failing>());
      net.add("wide", nn::dense({.out = 2000, .activation = "tanh"}));
      net.add("out", nn::dense({.out = 4}));
      net.add("loss", nn::softmax_loss(), {.inputs = {"out", "label"}});
      {
        Trainer trainer(net, options("momentum", exchange), session);
        const auto from = samples();
        expect_error<StateError>([&] { (void)trainer.run(*from); }, {"this layer fails"});
      }
      // Leaving the session ends the exchange that the other rank still waits for.
    });
  }
}

TEST(Trainer, RefusesWhatDoesNotFit) {
  Net net = cnn();
  EXPECT_THROW(Trainer(net, {.exchange = "allreduce"}), InvalidArgument);
  EXPECT_THROW(Trainer(net, {.exchange = "tables"}), InvalidArgument);
  EXPECT_THROW(Trainer(net, {.updater = {.rule = "adma"}}), InvalidArgument);
  EXPECT_THROW(Trainer(net, {.batch = 0}), InvalidArgument);
  for (const UpdaterOptions& climbs : {UpdaterOptions{.learning_rate = 0.1}, {.rule = "multiverso/default"}}) {
    try {
      Trainer(net, {.updater = climbs});
      ADD_FAILURE() << climbs.rule;
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string_view(error.what()).find(climbs.rule), std::string_view::npos) << error.what();
      EXPECT_NE(std::string_view(error.what()).find("sgd"), std::string_view::npos) << error.what();
    }
    EXPECT_THROW(ParameterUpdate(net.parameters()[0], climbs), InvalidArgument);
  }
  Trainer trainer(net, options("sgd", "none"));
  const auto wrong = array_samples({{"x", Tensor(DType::float32, {4, 7})}, {"label", Tensor(DType::int32, {4})}});
  EXPECT_THROW((void)trainer.run(*wrong), InvalidArgument);
  EXPECT_THROW(trainer.load_state({}), InvalidArgument);
  EXPECT_THROW((void)trainer.evaluate(*wrong, Phase::test), InvalidArgument);
}

}  // namespace
}  // namespace pleiad

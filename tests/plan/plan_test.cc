// Plans: the training is the same however a net is split over ranks, and explain() describes the split.
#include <gtest/gtest.h>

#include "pleiad/error.h"
#include "pleiad/plan.h"
#include "tests/file/folder.h"
#include "tests/train/small_run.h"

namespace pleiad {
namespace {

using namespace pleiad::test;
using nn::Net;

/// A net with ten and four outputs, which ranks split unevenly, with branches, and with a layer that cannot be split.
Net branches() {
  const nn::Param wide{.init = {.type = "he"}};
  Net net({.seed = 6});
  net.input("label", {}, DType::int32).input("x", {8, 8, 2});
  nn::ConvolutionOptions conv = nn::square(7, 3, 1, 1);
  conv.activation = "relu";
  conv.weight_param = wide;
  net.add("conv", nn::convolution(conv));
  net.add("bn", nn::batch_norm());
  nn::ConvolutionOptions grouped = nn::square(14, 3, 2, 1);
  grouped.groups = 7;
  grouped.weight_param = wide;
  net.add("grouped", nn::convolution(grouped));
  net.add("a", nn::dense({.out = 10, .activation = "tanh", .weight_param = wide}));
  net.add("b", nn::dense({.out = 10, .activation = "sigmoid", .bias = false, .weight_param = wide}),
          {.inputs = {"grouped"}});
  net.add("sum", nn::sum(), {.inputs = {"a", "b"}});
  net.add("drop", nn::dropout({.ratio = 0.3}));
  net.add("turned", nn::dense({.out = 9, .transposed = true, .weight_param = wide}));
  net.add("out", nn::dense({.out = 4, .weight_param = wide}));
  net.add("loss", nn::softmax_loss(), {.inputs = {"out", "label"}});
  return net;
}

struct PlanCase {
  const char* kind;
  int ranks;
  const char* rule;
  const char* exchange;
};

class Plans : public testing::TestWithParam<PlanCase> {};

TEST_P(Plans, DoNotChangeTheTraining) {
  const PlanCase& c = GetParam();
  Net alone_net = branches();
  Trainer alone(alone_net, options(c.rule, "none"));
  const std::vector<double> expected = trace(alone, *samples());
  const auto test = samples(false);
  const Report expected_test = alone.evaluate(*test, nn::Phase::test);
  EXPECT_LT(expected.back(), expected.front());
  run_cluster(c.ranks, [&](Session& session) {
    Net net = branches();
    {
      TrainOptions o = options(c.rule, c.exchange);
      o.plan.kind = c.kind;
      if (o.plan.kind == PlanKind::hybrid) o.plan.split = {"a", "turned"};
      Trainer trainer(net, o, session);
      const std::vector<double> got = trace(trainer, *samples());
      ASSERT_EQ(got.size(), expected.size());
      for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_NEAR(got[i], expected[i], 1e-5 * std::max(1.0, expected[i])) << "step " << i;
      }
      const auto own_test = samples(false);
      const Report tested = trainer.evaluate(*own_test, nn::Phase::test);
      EXPECT_NEAR(tested.metrics[0].second, expected_test.metrics[0].second, 1e-4);
      // Each rank holds a part of a split layer's parameters.
      const bool cut = std::string(c.kind) != "data";
      EXPECT_EQ(net.parameter("a/weight").value.shape()[0] < 10, cut);
      EXPECT_EQ(net.parameter("turned/weight").value.shape(),
                cut ? Shape({10, 9 / c.ranks + (session.rank() < 9 % c.ranks)}) : Shape({10, 9}));
      EXPECT_EQ(net.parameter("conv/bias").value.count() < 7, std::string(c.kind) == "feature");
      EXPECT_EQ(net.parameter("grouped/weight").value.shape()[0], 14);
    }
    session.shutdown();
  });
}

INSTANTIATE_TEST_SUITE_P(
    All, Plans,
    testing::Values(PlanCase{"data", 4, "momentum", "all_reduce"}, PlanCase{"feature", 2, "momentum", "all_reduce"},
                    PlanCase{"feature", 4, "adam", "all_reduce"}, PlanCase{"feature", 2, "adam", "tables"},
                    PlanCase{"hybrid", 2, "sgd", "all_reduce"}, PlanCase{"hybrid", 4, "momentum", "tables"}),
    [](const auto& tested) {
      const PlanCase& c = tested.param;
      return std::string(c.kind) + "_" + std::to_string(c.ranks) + "_" + c.rule + "_" + c.exchange;
    });

TEST(Plan, ExplainsTheWorkAndTheBytesOfEachRank) {
  const Net net = branches();
  const Plan feature = make_plan(net, {.kind = "feature"}, 4, 32);
  const auto layer = [&](const Plan& plan, const std::string& name) {
    return *std::ranges::find(plan.layers, name, &LayerPlan::name);
  };
  const LayerPlan a = layer(feature, "a");
  ASSERT_NE(a.as<SplitWork>(), nullptr);
  EXPECT_EQ(a.as<SplitWork>()->begin, (std::vector<std::int64_t>{0, 3, 6, 8, 10}));
  const std::int64_t inputs = 4 * 4 * 14;
  EXPECT_EQ(a.forward_bytes,
            (32 * inputs + 32 * 12) * 4);  // the inputs, and the outputs, which are three wide on four ranks
  EXPECT_EQ(a.backward_bytes, (32 * 10 + 32 * inputs) * 4);
  EXPECT_EQ(a.gradient_bytes, 0);
  EXPECT_EQ(a.parameter_bytes, (3 * inputs + 3) * 4);
  EXPECT_EQ(layer(feature, "conv").backward_bytes, 32 * 64 * 7 * 4);  // no earlier layer has parameters
  EXPECT_EQ(layer(feature, "grouped").as<SplitWork>(), nullptr);
  EXPECT_NE(layer(feature, "grouped").why.find("groups"), std::string::npos);
  const Plan data = make_plan(net, {}, 4, 32);
  EXPECT_EQ(layer(data, "a").gradient_bytes, (10 * inputs + 10) * 4);
  EXPECT_EQ(layer(data, "bn").forward_bytes, 2 * 7 * 8);
  const std::string text = explain(feature);
  for (const char* words :
       {"plan feature", "4 ranks", "2-3 of 10 outputs", "1/4 of the samples", "rank 3: 8-9", "not split"}) {
    EXPECT_NE(text.find(words), std::string::npos) << words << " in\n" << text;
  }
  EXPECT_EQ(make_plan(net, {.kind = "feature"}, 1, 32).layers[0].bytes(), 0);
}

TEST(Plan, RefusesWhatItCannotDo) {
  const Net net = branches();
  expect_error<InvalidArgument>([&] { (void)make_plan(net, {.kind = "featur"}, 2, 8); }, {"featur", "feature"});
  expect_error<InvalidArgument>([&] { (void)make_plan(net, {.kind = "hybrid", .split = {"aa"}}, 2, 8); },
                                {"aa", "conv"});
  expect_error<InvalidArgument>([&] { (void)make_plan(net, {.kind = "hybrid", .split = {"bn"}}, 2, 8); },
                                {"\"bn\"", "batch_norm"});
  expect_error<InvalidArgument>([&] { (void)make_plan(net, {.kind = "hybrid", .split = {"out"}}, 8, 8); },
                                {"\"out\"", "4 outputs", "8 ranks"});
  expect_error<InvalidArgument>([&] { (void)make_plan(net, {.kind = "data", .split = {"out"}}, 2, 8); }, {"hybrid"});
  EXPECT_NO_THROW((void)make_plan(net, {}, 3, 8));  // the ranks' parts of the batch may differ by one sample
  expect_error<InvalidArgument>([&] { (void)make_plan(net, {}, 9, 8); }, {"9", "8"});
  Net tied;
  tied.input("x", {6}).input("t", {6});
  tied.add("enc", nn::dense({.out = 4}), {.inputs = {"x"}});
  tied.add("dec", nn::dense({.out = 6, .transposed = true, .weight_param = {.share = "enc/weight"}}));
  tied.add("loss", nn::euclidean_loss(), {.inputs = {"dec", "t"}});
  for (const LayerPlan& layer : make_plan(tied, {.kind = "feature"}, 2, 8).layers)
    EXPECT_EQ(layer.as<SplitWork>(), nullptr) << layer.name;
}

TEST(Net, IsTheSameFromItsText) {
  for (const std::string& name : example_nets()) {
    const Net net = example_net(name);
    const Net again = nn::net_from_text(net.text());
    EXPECT_EQ(again.text(), net.text());
    EXPECT_EQ(again.describe(), net.describe());
  }
  Net net({.name = "n", .dtype = DType::float64});
  net.input("x", {7, 5});
  net.add("cut", nn::slice({.axis = 1, .sizes = {3, 1, 3}}));
  net.add("soft", nn::activation({.function = "softmax"}), {.inputs = {"cut:1"}});
  net.add("leaky", nn::activation({.function = "leaky", .slope = 0.125}),
          {.inputs = {"cut"}, .phases = {nn::Phase::test}});
  nn::ConvolutionOptions odd;
  odd.filters = 2;
  odd.kernel_h = 5;
  odd.pad_left = 1;
  odd.pad_right = 2;
  odd.weight_param = {.init = {.type = "gaussian", .std = 0.1}, .rate_scale = 2};
  net.input("image", {9, 9, 3});
  net.add("conv", nn::convolution(odd), {.inputs = {"image"}});
  const Net again = nn::net_from_text(net.text());
  EXPECT_EQ(again.text(), net.text());
  EXPECT_EQ(again.describe(), net.describe());
  EXPECT_EQ(again.parameters()[0].rate_scale, 2);
}

TEST(Net, AnInvalidNetIsNamed) {
  expect_error<FileError>([] { (void)nn::net_from_text("{", "a.json"); }, {"a.json"});
  expect_error<FileError>([] { (void)nn::net_from_text(R"({"pleiad_net": 2})", "a.json"); }, {"a.json", "version 2"});
  const std::string head = R"({"pleiad_net": 1, "name": "n", "dtype": "float32", "inputs": [{"name": "x", "shape": [3],
      "dtype": "float32"}], "layers": [)";
  expect_error<FileError>(
      [&] { (void)nn::net_from_text(head + R"({"name": "d", "kind": "dens", "inputs": ["x"]}]})", "a.json"); },
      {"a.json", "dens", "dense"});
  expect_error<FileError>(
      [&] {
        (void)nn::net_from_text(head + R"({"name": "d", "kind": "dense", "inputs": ["y"], "options": {"out": "2"}}]})",
                                "a.json");
      },
      {"a.json", "\"d\"", "\"y\""});
}

}  // namespace
}  // namespace pleiad

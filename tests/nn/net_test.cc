// Nets as graphs: gradients through shared parameters and branches, phases, names, errors.
#include <gtest/gtest.h>

#include <cmath>

#include "kernel/loss.h"
#include "pleiad/error.h"
#include "pleiad/nn/layers.h"
#include "pleiad/nn/net.h"

namespace pleiad::nn {
namespace {

TEST(SoftmaxLoss, NanScoresAreNeverRight) {
  const float nan = std::nanf("");
  const float all[] = {nan, nan, nan};
  EXPECT_FALSE(kernel::among_top(all, 3, 0, 1));
  EXPECT_FALSE(kernel::among_top(all, 3, 2, 3));
  const float one[] = {nan, 2, 1};
  EXPECT_FALSE(kernel::among_top(one, 3, 1, 1));
  EXPECT_TRUE(kernel::among_top(one, 3, 1, 2));
  const float ties[] = {1, 1, 0};
  EXPECT_TRUE(kernel::among_top(ties, 3, 0, 1));
  EXPECT_FALSE(kernel::among_top(ties, 3, 1, 1));
}

constexpr Init kGaussian{.type = "gaussian", .std = 0.5};

/// A net with two branches that join, a tied decoder, and two losses.
Net branched() {
  Net net({.name = "branched", .dtype = DType::float64, .seed = 5});
  net.input("x", {6}).input("label", {}, DType::int32);
  net.add("enc", dense({.out = 4, .activation = "tanh", .weight_param = {.init = kGaussian}}), {.inputs = {"x"}});
  net.add("left", dense({.out = 4, .weight_param = {.init = kGaussian}}), {.inputs = {"enc"}});
  net.add("right", dense({.out = 4, .weight_param = {.init = kGaussian, .share = "left/weight"}}), {.inputs = {"enc"}});
  net.add("both", sum(), {.inputs = {"left", "right", "enc"}});
  net.add("dec", dense({.out = 6, .transposed = true, .weight_param = {.share = "enc/weight"}}), {.inputs = {"both"}});
  net.add("far", euclidean_loss(), {.inputs = {"dec", "x"}});
  net.add("cls", softmax_loss(), {.inputs = {"both", "label"}});
  return net;
}

void feed(const Net& net) {
  const auto x = net.input_tensor("x").values<double>();
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<double>(i) * 1.7);
  const auto label = net.input_tensor("label").values<std::int32_t>();
  for (std::size_t i = 0; i < label.size(); ++i) label[i] = static_cast<std::int32_t>(i % 4);
}

TEST(Net, GradientsThroughBranchesAndSharedParametersMatchFiniteDifferences) {
  Net net = branched();
  net.prepare(3);
  feed(net);
  for (int pass = 0; pass < 2; ++pass) {  // a second pass does not depend on the first
    net.forward(Phase::train);
    std::vector<int> ready(net.parameters().size(), 0);
    net.backward([&](std::size_t p) { ++ready[p]; });
    EXPECT_EQ(ready, std::vector<int>(net.parameters().size(), 1));
  }
  for (Parameter& p : net.parameters()) {
    const Tensor gradient = p.gradient.clone();
    for (std::int64_t i = 0; i < p.value.count(); ++i) {
      double& v = p.value.values<double>()[static_cast<std::size_t>(i)];
      const double before = v;
      const auto loss = [&](double value) {
        v = value;
        net.forward(Phase::train);
        return net.loss();
      };
      const double expected = (loss(before + 1e-6) - loss(before - 1e-6)) / 2e-6;
      v = before;
      ASSERT_NEAR(gradient.at(i), expected, 1e-6 * std::max(1.0, std::fabs(expected))) << p.name << " " << i;
    }
  }
}

TEST(Net, OutputsStayAfterAnotherBatchSizeAndBack) {
  Net net = branched();
  net.prepare(3);
  feed(net);
  net.forward(Phase::test);
  const double loss = net.loss();
  net.prepare(5);
  net.prepare(3);
  feed(net);
  net.forward(Phase::test);
  EXPECT_EQ(net.loss(), loss);
}

TEST(Net, LayersOfOtherPhasesDoNotRun) {
  Net net({.dtype = DType::float64});
  net.input("x", {2}).input("t", {2});
  net.add("train", euclidean_loss(), {.inputs = {"x", "t"}, .phases = {Phase::train}});
  net.add("test", euclidean_loss(), {.inputs = {"x", "t"}, .phases = {Phase::test}});
  net.prepare(1);
  net.input_tensor("x").fill(2);
  net.forward(Phase::test);
  ASSERT_EQ(net.metrics().size(), 2U);
  EXPECT_EQ(net.metrics()[1], (std::pair<std::string, double>("test/se", 8)));
  EXPECT_EQ(net.loss(), 4);
}

template <class Body>
std::string mistake(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Net, ErrorsNameTheLayerAndTheExpectedAndReceivedValues) {
  Net net;
  net.input("x", {28, 28, 1});
  EXPECT_EQ(mistake([&] { net.add("c", convolution(square(4, 29))); }),
            "layer \"c\" (convolution): the kernel covers 29x29 positions; padded images have only 28x28");
  net.add("flat", flatten());
  EXPECT_EQ(mistake([&] { net.add("p", pooling({})); }),
            "layer \"p\" (pooling): expected images (batch, height, width, channels); received (1, 784)");
  EXPECT_EQ(mistake([&] { net.add("s", sum(), {.inputs = {"x", "flat"}}); }),
            "layer \"s\" (sum): expected inputs of one shape; received (1, 28, 28, 1) and (1, 784)");
  EXPECT_NE(mistake([&] { net.add("d", dense({.out = 3}), {.inputs = {"falt"}}); }).find("did you mean \"flat\"?"),
            std::string::npos);
  EXPECT_NE(mistake([&] { net.add("flat", dense({.out = 3})); }).find("expected an unused layer name"),
            std::string::npos);
  EXPECT_EQ(mistake([&] { net.add("d", dense({.out = 3, .weight_param = {.share = "x/weight"}})); }),
            "layer \"d\" (dense): weight shares \"x/weight\", which no earlier layer has");
  EXPECT_NE(mistake([&] { net.forward(Phase::train); }).find("call prepare before forward"), std::string::npos);
  EXPECT_NE(mistake([&] { (void)Net({.dtype = DType::int32}); }).find("received int32"), std::string::npos);
}

TEST(Net, ALabelOutOfRangeNamesSampleAndClasses) {
  Net net;
  net.input("label", {}, DType::int32).input("x", {3});
  net.add("loss", softmax_loss(), {.inputs = {"x", "label"}});
  net.prepare(2);
  net.input_tensor("label").values<std::int32_t>()[1] = 3;
  EXPECT_EQ(mistake([&] { net.forward(Phase::test); }),
            "layer \"loss\" (softmax_loss): the label of sample 1 is 3; 3 classes have labels 0 to 2");
}

TEST(Net, DescribesItselfAsTextAndAsAGraph) {
  Net net = branched();
  net.prepare(2);
  const std::string words = net.describe();
  EXPECT_NE(words.find("net \"branched\", float64, batch 2"), std::string::npos) << words;
  EXPECT_NE(words.find("58 parameters"), std::string::npos) << words;  // 24 + 4, 16 + 4, 4, 6
  const std::string graph = net.graph().dot();
  EXPECT_NE(graph.find("\"enc\" -> \"left\""), std::string::npos) << graph;
  EXPECT_NE(graph.find("\"left\" -> \"right\" [style=dashed"), std::string::npos) << graph;
}

TEST(Net, DropoutOfABatchIsThatOfItsParts) {
  const auto run = [](std::int64_t batch, std::int64_t first) {
    Net net({.dtype = DType::float32, .seed = 3});
    net.input("x", {10}).add("drop", dropout({.ratio = 0.5}));
    net.prepare(batch);
    net.input_tensor("x").fill(1);
    net.forward(Phase::train, 7, first);
    return net.output("drop").clone();
  };
  const Tensor whole = run(4, 0);
  const Tensor part = run(2, 2);
  double zeros = 0;
  for (std::int64_t i = 0; i < 20; ++i) EXPECT_EQ(whole.at(20 + i), part.at(i));
  for (std::int64_t i = 0; i < 40; ++i) zeros += whole.at(i) == 0 ? 1 : 0;
  EXPECT_GT(zeros, 8);
  EXPECT_LT(zeros, 32);
}

}  // namespace
}  // namespace pleiad::nn

// The same training on every number of ranks: equal up to rounding, and bit-identical in deterministic mode.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "kernel/exact.h"
#include "kernel/types.h"
#include "pleiad/error.h"
#include "pleiad/sparse_stack.h"
#include "tests/file/folder.h"
#include "tests/plan/spatial_nets.h"
#include "tests/train/small_run.h"

namespace pleiad {
namespace {

using namespace pleiad::test;
using kernel::ExactSums;

TEST(ExactSums, DoNotDependOnTheOrderAndAreRoundedOnce) {
  std::mt19937 random(3);
  std::vector<double> terms;
  for (int i = 0; i < 2000; ++i) {
    const double size = std::ldexp(1.0, std::uniform_int_distribution<int>(-60, 60)(random));
    terms.push_back(std::uniform_real_distribution<>(-1, 1)(random) * size);
  }
  for (std::size_t i = 0; i < 1000; ++i) terms.push_back(-terms[i]);  // these cancel the large terms
  const auto sum = [&] {
    ExactSums sums(2);
    for (std::size_t i = 0; i < terms.size(); ++i) sums.add(1, terms[i]);
    EXPECT_EQ(sums.value(0), 0);
    return sums.value(1);
  };
  const double first = sum();
  long double expected = 0;  // the sum of the remaining terms, beginning with the smallest
  std::vector<double> rest(terms.begin() + 1000, terms.begin() + 2000);
  std::ranges::sort(rest, {}, [](double t) { return std::abs(t); });
  for (const double t : rest) expected += t;
  EXPECT_NEAR(first, static_cast<double>(expected), 1e-12 * std::abs(first));
  for (int again = 0; again < 5; ++again) {
    std::ranges::shuffle(terms, random);
    EXPECT_EQ(std::bit_cast<std::uint64_t>(sum()), std::bit_cast<std::uint64_t>(first));
  }
  // Partial sums of two ranks are added word by word.
  ExactSums a(1);
  ExactSums b(1);
  for (std::size_t i = 0; i < terms.size(); ++i) (i % 3 == 0 ? a : b).add(0, terms[i]);
  for (std::size_t w = 0; w < a.words().size(); ++w) a.words()[w] += b.words()[w];
  EXPECT_EQ(a.value(0), first);
}

TEST(ExactSums, HoldSingleNumbersAndReportNotFiniteOnes) {
  for (const double value : {1.0, -1.0, 0.1, -3e20, 1e-30, 5e27, -0x1.fffffffffffffp93, 0x1p-160, 0.0}) {
    ExactSums sums(1);
    sums.add(0, value);
    EXPECT_EQ(sums.value(0), value);
    sums.add(0, -value);
    EXPECT_EQ(sums.value(0), 0);
  }
  ExactSums carry(1);
  for (int i = 0; i < 100'000; ++i) carry.add(0, -0x1.fffffffffffffp40);
  EXPECT_EQ(carry.value(0), -0x1.fffffffffffffp40 * 100'000);
  for (const double value : std::vector<double>{INFINITY, -INFINITY, std::nan(""), 0x1p94}) {
    ExactSums sums(1);
    sums.add(0, value);
    sums.add(0, 1);
    EXPECT_TRUE(std::isnan(sums.value(0))) << value;
  }
}

const std::vector<std::pair<int, std::string>> kGrids = {{2, "1x2"}, {3, "3x1"}, {4, "2x2"},
                                                         {6, "2x3"}, {9, "3x3"}, {16, "4x4"}};

/// The losses, and all values of the whole net at the end.
struct Outcome {
  std::vector<double> losses;
  nn::NamedTensors numbers;
};

void keep(Outcome& outcome, Trainer& trainer) {
  const nn::Net whole = trainer.whole_net();
  for (const nn::Parameter& p : whole.parameters()) outcome.numbers.emplace_back(p.name, p.value.clone());
  for (const auto& [name, state] : whole.states()) outcome.numbers.emplace_back(name, state.clone());
}

void expect_same(const Outcome& got, const Outcome& expected, const std::string& where) {
  ASSERT_EQ(got.losses.size(), expected.losses.size());
  for (std::size_t i = 0; i < got.losses.size(); ++i)
    ASSERT_EQ(got.losses[i], expected.losses[i]) << where << ", " << i;
  ASSERT_EQ(got.numbers.size(), expected.numbers.size());
  for (std::size_t i = 0; i < got.numbers.size(); ++i) {
    const auto& [name, value] = got.numbers[i];
    ASSERT_EQ(std::memcmp(value.raw(), expected.numbers[i].second.raw(), value.bytes()), 0) << where << ", " << name;
  }
}

void expect_near(const Outcome& got, const Outcome& expected, double tolerance, const std::string& where) {
  ASSERT_EQ(got.losses.size(), expected.losses.size());
  for (std::size_t i = 0; i < got.losses.size(); ++i) {
    ASSERT_NEAR(got.losses[i], expected.losses[i], tolerance * std::abs(expected.losses[i])) << where << ", " << i;
  }
}

/// Runs `train` on one process and on every grid, and compares.
template <class Train, class Compare>
void on_all_grids(Train&& train, Compare&& compare) {
  const Outcome expected = train(nullptr, "auto");
  ASSERT_TRUE(std::ranges::all_of(expected.losses, [](double loss) { return std::isfinite(loss); }));
  for (const auto& [ranks, grid] : kGrids) {
    run_cluster(ranks, [&, g = grid](Session& session) {
      compare(train(&session, g), expected, g);
      session.shutdown();
    });
    if (testing::Test::HasFatalFailure()) return;
  }
}

std::unique_ptr<Trainer> trainer_of(nn::Net& net, const TrainOptions& o, Session* session) {
  return session == nullptr ? std::make_unique<Trainer>(net, o) : std::make_unique<Trainer>(net, o, *session);
}

Outcome outcome_of(nn::Net& net, const TrainOptions& o, Session* session,
                   std::vector<std::pair<std::string, Tensor>> arrays) {
  Outcome outcome;
  const auto trainer = trainer_of(net, o, session);
  outcome.losses = trace(*trainer, *array_samples(std::move(arrays)));
  keep(outcome, *trainer);
  return outcome;
}

Tensor noise_of(DType dtype, Shape shape, std::uint64_t seed) {
  Tensor x(dtype, shape);
  const RandomStream noise(seed, "images");
  kernel::by_type(dtype, [&]<class T>(T) {
    for (std::int64_t i = 0; i < x.count(); ++i) {
      x.values<T>()[static_cast<std::size_t>(i)] = static_cast<T>(noise.gaussian(static_cast<std::uint64_t>(i)));
    }
  });
  return x;
}

Tensor classes_of(std::int32_t samples, std::int32_t classes) {
  Tensor label(DType::int32, {samples});
  for (std::int32_t n = 0; n < samples; ++n) label.values<std::int32_t>()[static_cast<std::size_t>(n)] = n % classes;
  return label;
}

class Deterministic : public testing::TestWithParam<DType> {};

TEST_P(Deterministic, CnnIsBitIdenticalAtEveryNumberOfRanks) {
  const auto train = [](Session* session, const std::string& grid) {
    nn::Net net = mnist(GetParam());
    TrainOptions o = mnist_options(grid, 2, 3);
    o.plan.deterministic = true;
    Outcome outcome;
    const auto trainer = trainer_of(net, o, session);
    outcome.losses = trace(*trainer, *digits(GetParam(), 40));
    keep(outcome, *trainer);
    return outcome;
  };
  on_all_grids(train, expect_same);
}

/// Every kind of layer that sums over positions: padded and strided convolutions, batch normalisation, averages,
/// contrast.
TEST_P(Deterministic, OtherLayersAreBitIdenticalToo) {
  const auto made = [] {
    nn::Net net({.dtype = GetParam(), .seed = 6});
    const nn::Param wide{.init = {.type = "he"}};
    net.input("label", {}, DType::int32).input("x", {11, 9, 2});
    nn::ConvolutionOptions conv = nn::square(4, 3, 1, 1);
    conv.weight_param = wide;
    net.add("a", nn::convolution(conv), {.inputs = {"x"}});
    net.add("bn", nn::batch_norm()).add("relu", nn::activation({.function = "relu"}));
    net.add("lrn", nn::lrn({.size = 3, .alpha = 0.1}));
    net.add("b", nn::convolution(conv));
    net.add("c", nn::convolution(conv), {.inputs = {"lrn"}});
    net.add("sum", nn::sum(), {.inputs = {"b", "c"}});
    net.add("average", nn::pooling({.type = "average", .kernel = 3, .stride = 2}));
    net.add("contrast", nn::local_contrast({.size = 3}));
    conv.stride_h = conv.stride_w = 2;
    conv.activation = "tanh";
    net.add("d", nn::convolution(conv));
    net.add("drop", nn::dropout({.ratio = 0.3}));
    net.add("box", nn::local_contrast({.type = "box", .size = 3}));
    net.add("hidden", nn::dense({.out = 7, .activation = "sigmoid", .weight_param = wide}));
    net.add("out", nn::dense({.out = 4, .weight_param = wide}));
    net.add("loss", nn::softmax_loss(), {.inputs = {"out", "label"}});
    return net;
  };
  const Tensor x = noise_of(GetParam(), {24, 11, 9, 2}, 8);
  const Tensor label = classes_of(24, 4);
  const auto train = [&](Session* session, const std::string& grid) {
    nn::Net net = made();
    TrainOptions o{.batch = 6, .updater = {.rule = "adam", .learning_rate = 0.01}, .steps = 5, .display = 1};
    o.plan = {.kind = "spatial", .grid = grid, .deterministic = true};
    return outcome_of(net, o, session, {{"x", x}, {"label", label}});
  };
  on_all_grids(train, expect_same);
}

/// Rows that do not divide into whole vectors: a position is computed with other neighbours on each grid.
TEST_P(Deterministic, WideImagesAreBitIdenticalToo) {
  const Tensor x = noise_of(GetParam(), {4, 5, 71, 3}, 9);
  const Tensor label = classes_of(4, 2);
  const auto train = [&](Session* session, const std::string& grid) {
    nn::Net net({.dtype = GetParam(), .seed = 7});
    const nn::Param wide{.init = {.type = "he"}};
    net.input("label", {}, DType::int32).input("x", {5, 71, 3});
    nn::ConvolutionOptions conv = nn::square(3, 3, 1, 1);
    conv.weight_param = wide;
    net.add("contrast", nn::local_contrast({.size = 5}), {.inputs = {"x"}});
    net.add("conv", nn::convolution(conv));
    net.add("box", nn::local_contrast({.type = "box", .size = 3}));
    net.add("local", nn::local_convolution({.filters = 2, .kernel_h = 2, .kernel_w = 2, .weight_param = wide}));
    net.add("again", nn::local_contrast({.size = 3}));
    net.add("out", nn::dense({.out = 2, .weight_param = wide}));
    net.add("loss", nn::softmax_loss(), {.inputs = {"out", "label"}});
    TrainOptions o{.batch = 4, .updater = {.rule = "sgd", .learning_rate = 0.01}, .steps = 3, .display = 1};
    o.plan = {.kind = "spatial", .grid = grid, .deterministic = true};
    return outcome_of(net, o, session, {{"x", x}, {"label", label}});
  };
  on_all_grids(train, expect_same);
}

/// neon's MNIST GB: stages of filters 4, 3, 3 with 8 maps are trained one by one, then the last layer, then all.
Outcome sparse_stack(DType dtype, bool deterministic, bool tied, Session* session, const std::string& grid) {
  SparseStack stack({.image = {28, 28, 1},
                     .stages = {{.filter = 4}, {.filter = 3}, {.filter = 3}},
                     .tied = tied,
                     .dtype = dtype,
                     .seed = 3});
  TrainOptions o{.batch = 4, .updater = {.rule = "sgd", .learning_rate = 0.005}, .steps = 2, .display = 1};
  o.plan = {.kind = "spatial", .grid = grid, .deterministic = deterministic};
  Outcome outcome;
  const auto tell = [&](const Report& report) {
    for (const auto& [name, value] : report.metrics) {
      if (name.ends_with("loss")) outcome.losses.push_back(value);
    }
    return true;
  };
  const auto all = digits(dtype, 40);
  const Tensor x = images_of(dtype, 40);
  EXPECT_TRUE(
      stack.pretrain(*array_samples({{"x", x}}), o, session, [&](std::size_t) { return TrainCalls{.report = tell}; }));
  nn::Net net = stack.classifier();
  SparseStack::fix_stages(net);
  o.updater = {.rule = "momentum", .learning_rate = 0.005, .momentum = 0.5};
  const auto trainer = trainer_of(net, o, session);
  trainer->run(*all, nullptr, nullptr, {.report = tell});
  SparseStack::fix_stages(net, false);
  for (int step = 0; step < 2; ++step) {
    net.prepare(4);
    all->fill(net, step * 4, 4);
    outcome.losses.push_back(trainer->step());
  }
  keep(outcome, *trainer);
  return outcome;
}

TEST_P(Deterministic, SparseAutoEncoderIsBitIdenticalAtEveryNumberOfRanks) {
  for (const bool tied : {true, false}) {
    on_all_grids([&](Session* s, const std::string& grid) { return sparse_stack(GetParam(), true, tied, s, grid); },
                 expect_same);
    if (GetParam() == DType::float64) break;  // the untied variant runs once only
  }
}

TEST_P(Deterministic, OrNotTheSparseAutoEncoderHasTheLossesOfOneRank) {
  const double tolerance = GetParam() == DType::float64 ? 1e-10 : 1e-3;
  on_all_grids([&](Session* s, const std::string& grid) { return sparse_stack(GetParam(), false, true, s, grid); },
               [&](const Outcome& got, const Outcome& expected, const std::string& where) {
                 expect_near(got, expected, tolerance, where);
               });
}
INSTANTIATE_TEST_SUITE_P(Types, Deterministic, testing::Values(DType::float32, DType::float64),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

TEST(DeterministicMode, LearnsWhatTheUsualOneLearns) {
  std::vector<double> losses[2];
  for (const bool deterministic : {false, true}) {
    nn::Net net = mnist(DType::float64);
    TrainOptions o = mnist_options("auto", 2, 3);
    o.plan.deterministic = deterministic;
    Trainer trainer(net, o);
    losses[deterministic ? 1 : 0] = trace(trainer, *digits(DType::float64, 40));
  }
  for (std::size_t i = 0; i < losses[0].size(); ++i) EXPECT_NEAR(losses[1][i], losses[0][i], 1e-10);
}

TEST(DeterministicMode, IsForGridsWithoutGroups) {
  run_cluster(2, [](Session& session) {
    nn::Net net = mnist(DType::float32);
    TrainOptions o = mnist_options("1x1x2", 2, 1);
    o.plan.deterministic = true;
    expect_error<InvalidArgument>([&] { const Trainer trainer(net, o, session); }, {"deterministic", "groups"});
    o.plan = {.kind = "data", .deterministic = true};
    expect_error<InvalidArgument>([&] { const Trainer trainer(net, o, session); }, {"deterministic", "spatial"});
    session.shutdown();
  });
}

}  // namespace
}  // namespace pleiad

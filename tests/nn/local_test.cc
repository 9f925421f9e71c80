// Local filters, their transpose, contrast normalisation, and filters that are kept at norm 1.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <set>
#include <sstream>

#include "core/threads.h"
#include "kernel/ref/local.h"
#include "pleiad/error.h"
#include "pleiad/sparse_stack.h"
#include "tests/file/folder.h"
#include "tests/nn/layer_bench.h"
#include "tests/train/small_run.h"

namespace pleiad::nn {
namespace {

namespace ref = kernel::ref;

class Local : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override { set_compute_threads(2); }
  [[nodiscard]] double tolerance() const { return GetParam() == DType::float32 ? 2e-4 : 1e-10; }
  [[nodiscard]] Tensor like(const Tensor& t) const { return {GetParam(), t.shape()}; }
};

TEST_P(Local, FilteringAndItsTransposeAreThoseOfThePlainLoops) {
  for (unsigned seed = 0; seed < 24; ++seed) {
    std::mt19937 r(seed);
    const bool transposed = seed % 2 == 1;
    const SlidingWindow window{.size = pick(r, 1, 4), .stride = pick(r, 1, 3)};
    const std::int64_t pad = pick(r, 0, window.size - 1), filters = pick(r, 1, 6), side = pick(r, 4, 12);
    Bench b("local_convolution",
            {{"filters", std::to_string(filters)},
             {"kernel", std::to_string(window.size)},
             {"stride", std::to_string(window.stride)},
             {"pad", std::to_string(pad)},
             {"transposed", transposed ? "true" : "false"}},
            {{pick(r, 1, 20), side, side + 1, pick(r, 1, 5)}}, GetParam(), seed);
    b.gradients();
    SlidingWindow padded = window;
    padded.pad_begin = padded.pad_end = pad;
    const Tensor& image = transposed ? b.pass.y[0] : b.pass.x[0];
    const Tensor& maps = transposed ? b.pass.x[0] : b.pass.y[0];
    const kernel::LocalConv c{.batch = image.shape()[0],
                              .in_h = image.shape()[1],
                              .in_w = image.shape()[2],
                              .channels = image.shape()[3],
                              .out_h = maps.shape()[1],
                              .out_w = maps.shape()[2],
                              .maps = maps.shape()[3],
                              .h = padded,
                              .w = padded};
    const Tensor y = like(b.pass.y[0]), dx = like(b.pass.x[0]), dw = like(b.pass.parameter[0]);
    kernel::by_type(GetParam(), [&]<class T>(T) {
      if (transposed) {
        ref::local_transposed<T>(c, b.pass.x[0], b.pass.parameter[0], y);
        ref::local_apply<T>(c, b.weights[0], b.pass.parameter[0], dx);
        ref::local_weight_gradient<T>(c, b.pass.x[0], b.weights[0], dw);
      } else {
        ref::local_apply<T>(c, b.pass.x[0], b.pass.parameter[0], y);
        ref::local_transposed<T>(c, b.weights[0], b.pass.parameter[0], dx);
        ref::local_weight_gradient<T>(c, b.weights[0], b.pass.x[0], dw);
      }
    });
    SCOPED_TRACE(seed);
    expect_close(b.pass.y[0], y, "y", tolerance());
    expect_close(b.pass.dx[0], dx, "dx", tolerance());
    expect_close(b.pass.gradient[0], dw, "dw", tolerance());
  }
}

TEST_P(Local, ContrastIsThatOfThePlainLoops) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    std::mt19937 r(seed);
    const std::int64_t size = 2 * pick(r, 0, 4) + 1;
    const Shape shape{pick(r, 1, 4), pick(r, 1, 12), pick(r, 1, 12), pick(r, 1, 20)};
    Bench gaussian("local_contrast", {{"size", std::to_string(size)}}, {shape}, GetParam(), seed);
    Bench box("local_contrast", {{"type", "box"}, {"size", std::to_string(size)}, {"alpha", "0.5"}, {"beta", "0.75"}},
              {shape}, GetParam(), seed);
    (void)gaussian.value();
    (void)box.value();
    const Tensor y = like(gaussian.pass.y[0]), z = like(y);
    kernel::by_type(GetParam(), [&]<class T>(T) {
      ref::gaussian_contrast<T>(size, gaussian.pass.x[0], y);
      ref::box_contrast<T>({.size = size, .alpha = 0.5, .beta = 0.75}, box.pass.x[0], z);
    });
    if (size > 1) expect_close(gaussian.pass.y[0], y, "gaussian", 10 * tolerance());
    expect_close(box.pass.y[0], z, "box", tolerance());
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Local, testing::Values(DType::float32, DType::float64),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

TEST(LocalContrast, AnEvenImageBecomesNothingInsideAndStaysFinite) {
  Bench b("local_contrast", {{"size", "3"}}, {{1, 7, 7, 2}}, DType::float64, 1);
  b.pass.x[0].fill(0);
  (void)b.value();
  for (std::int64_t i = 0; i < b.pass.y[0].count(); ++i) ASSERT_EQ(b.pass.y[0].at(i), 0);
  b.gradients();
  for (std::int64_t i = 0; i < b.pass.dx[0].count(); ++i) ASSERT_TRUE(std::isfinite(b.pass.dx[0].at(i)));
}

/// Training with filters of norm 1.
Net filtering(bool bias, double norm) {
  Net net({.seed = 4});
  net.input("label", {}, DType::int32).input("x", {8, 8, 2});
  net.add("filter", local_convolution({.filters = 3,
                                       .kernel_h = 3,
                                       .kernel_w = 3,
                                       .activation = "tanh",
                                       .bias = bias,
                                       .weight_param = {.init = {.type = "auto_uniform"}, .norm = norm}}));
  net.add("pool", pooling({.type = "l2", .kernel = 2, .stride = 2}));
  net.add("contrast", local_contrast({.size = 3}));
  net.add("out", dense({.out = 4}));
  net.add("loss", softmax_loss(), {.inputs = {"out", "label"}});
  return net;
}

TEST(LocalTraining, FusedUpdatesGiveTheSameNumbers) {
  for (const std::string rule : {"sgd", "momentum", "adam"}) {
    std::vector<double> losses[2];
    for (const bool fuse : {false, true}) {
      Net net = filtering(true, 0);
      TrainOptions options = test::options(rule, "none");
      options.fuse = fuse;
      Trainer trainer(net, options);
      losses[fuse ? 1 : 0] = test::trace(trainer, *test::samples());
    }
    EXPECT_LT(losses[0].back(), losses[0].front());
    for (std::size_t i = 0; i < losses[0].size(); ++i)
      ASSERT_NEAR(losses[0][i], losses[1][i], 1e-5) << rule << " step " << i;
  }
}

TEST(LocalTraining, FiltersStayAtTheirNormOnAllRanks) {
  std::vector<double> alone;
  const auto run = [&](Session* session) {
    Net net = filtering(false, 1);
    const TrainOptions options = test::options("momentum", session == nullptr ? "none" : "all_reduce");
    const auto trainer = session == nullptr ? std::make_unique<Trainer>(net, options)
                                            : std::make_unique<Trainer>(net, options, *session);
    const std::vector<double> losses = test::trace(*trainer, *test::samples());
    const Tensor& w = net.parameter("filter/weight").value;
    for (std::int64_t f = 0; f < w.count() / 18; ++f) {
      double squares = 0;
      for (std::int64_t i = 0; i < 18; ++i) squares += w.at(f * 18 + i) * w.at(f * 18 + i);
      EXPECT_NEAR(squares, 1, 1e-5);
    }
    return losses;
  };
  alone = run(nullptr);
  run_cluster(2, [&](Session& session) {
    const std::vector<double> losses = run(&session);
    for (std::size_t i = 0; i < alone.size(); ++i) ASSERT_NEAR(losses[i], alone[i], 1e-5);
    Net net = filtering(false, 1);
    EXPECT_THROW(Trainer(net, test::options("sgd", "tables"), session), InvalidArgument);
  });
  Net net;
  net.input("x", {5});
  EXPECT_THROW(net.add("d", dense({.out = 2, .transposed = true, .weight_param = {.norm = 1}})), InvalidArgument);
}

SparseStackOptions small_stack(bool tied) {
  return {.image = {8, 8, 2},
          .stages = {{.filter = 3, .maps = 4, .pool = 2}, {.filter = 2, .maps = 3, .pool = 2}},
          .tied = tied,
          .classes = 4};
}

TEST(SparseStack, TiedItMakesTwoUpdatesABatchTheDecodersFirst) {
  const SparseStack stack(small_stack(true));
  Net net = stack.stage(0);
  const auto samples = array_samples({{"x", test::images()[0].second}});
  const double rate = 0.05;
  // Computes each gradient separately, in nets that hold the weight twice.
  SparseStackOptions apart = small_stack(false);
  Net two = SparseStack(apart).stage(0);
  const Tensor w = net.parameter("filter1/weight").value;
  two.parameter("filter1/weight").value.copy_from(w);
  two.parameter("decoder/weight").value.copy_from(w);
  two.prepare(16);
  samples->fill(two, 0, 16);
  two.forward(Phase::train);
  two.backward();
  const Tensor expected = w.clone();
  const std::int64_t filter = 3 * 3 * 2;
  for (const char* name : {"decoder/weight", "filter1/weight"}) {
    for (std::int64_t f = 0; f < w.count() / filter; ++f) {
      double squares = 0;
      for (std::int64_t i = f * filter; i < (f + 1) * filter; ++i) {
        expected.values<float>()[i] -= static_cast<float>(rate * two.parameter(name).gradient.at(i));
        squares += expected.at(i) * expected.at(i);
      }
      for (std::int64_t i = f * filter; i < (f + 1) * filter; ++i)
        expected.values<float>()[i] /= static_cast<float>(std::sqrt(squares));
    }
  }
  Trainer trainer(net, {.batch = 16, .updater = {.rule = "sgd", .learning_rate = rate}});
  samples->fill(net, 0, 16);
  (void)trainer.step();
  expect_close(net.parameter("filter1/weight").value, expected, "filters", 1e-5);
}

TEST(SparseStack, LearnsStageByStageThenTheLastLayerThenAll) {
  for (const bool tied : {true, false}) {
    SparseStack stack(small_stack(tied));
    std::vector<std::vector<double>> losses(2);
    TrainOptions train{.batch = 16, .updater = {.rule = "sgd", .learning_rate = 0.005}, .steps = 40, .display = 1};
    const auto x = array_samples({{"x", test::images()[0].second}});
    const auto calls = [&](std::size_t i) {
      return TrainCalls{.report = [&losses, i](const Report& r) {
        double sum = 0;
        for (const auto& [name, value] : r.metrics) sum += name.ends_with("/loss") ? value : 0;
        losses[i].push_back(sum);
        return true;
      }};
    };
    ASSERT_TRUE(stack.pretrain(*x, train, nullptr, calls));
    for (const std::vector<double>& stage : losses) {
      ASSERT_EQ(stage.size(), 40U);
      EXPECT_LT(stage.back(), 0.8 * stage.front()) << tied;
    }
    Net net = stack.classifier();
    SparseStack::fix_stages(net);
    const Tensor filters = net.parameter("filter1/weight").value.clone();
    train.updater.learning_rate = 0.1;
    Trainer trainer(net, train);
    trainer.run(*test::samples());
    EXPECT_EQ(std::memcmp(filters.raw(), net.parameter("filter1/weight").value.raw(), filters.bytes()), 0);
    const auto accuracy = [&] { return trainer.evaluate(*test::samples(), Phase::test).metrics[1].second; };
    EXPECT_GT(accuracy(), 0.6);
    SparseStack::fix_stages(net, false);
    train.steps = 60;
    Trainer whole(net, train);
    whole.run(*test::samples());
    EXPECT_NE(std::memcmp(filters.raw(), net.parameter("filter1/weight").value.raw(), filters.bytes()), 0);
    EXPECT_GT(whole.evaluate(*test::samples(), Phase::test).metrics[1].second, 0.85) << tied;
  }
  EXPECT_THROW(SparseStack({.image = {8, 8}, .stages = {{}}}), InvalidArgument);
  EXPECT_THROW(SparseStack({.image = {3, 3, 1}, .stages = {{.filter = 4}}}), InvalidArgument);
}

TEST(SmallLayers, OutputsAreWrittenAndMetricsAddNoLoss) {
  const test::Folder place;
  const std::string folder = place.path().string();
  const std::string csv = folder + "/out.csv", record = folder + "/out.kv";
  {
    Net net({.name = "out"});
    net.input("label", {}, DType::int32).input("x", {3});
    net.add("sorted", argsort({.top_k = 2}), {.inputs = {"x"}});
    net.add("csv", csv_output({.path = csv}), {.inputs = {"sorted", "label"}});
    net.add("record", record_output({.path = record}), {.inputs = {"x", "label"}});
    net.add("accuracy", accuracy({.top_k = 2}), {.inputs = {"x", "label"}});
    net.prepare(2);
    const float x[] = {0.5F, 3, 1, 2, 2, -1};
    std::copy(x, x + 6, net.input_tensor("x").values<float>().begin());
    net.input_tensor("label").values<std::int32_t>()[0] = 2;
    net.input_tensor("label").values<std::int32_t>()[1] = 2;
    net.forward(Phase::test);
    EXPECT_EQ(net.loss(), 0);
    ASSERT_EQ(net.metrics().size(), 1U);
    EXPECT_EQ(net.metrics()[0].first, "accuracy");
    EXPECT_EQ(net.metrics()[0].second, 0.5);
    EXPECT_EQ(net.output("csv").at(1), 1);
  }
  std::stringstream lines;
  lines << std::ifstream(csv).rdbuf();
  EXPECT_EQ(lines.str(), "2,1,2\n2,0,1\n");
  std::stringstream bytes;
  bytes << std::ifstream(record, std::ios::binary).rdbuf();
  const std::string all = bytes.str();
  ASSERT_EQ(all.size(), 2U * (8 + 8 + 8 + 2 + 2 + 2 + 12));
  EXPECT_EQ(all.substr(8, 8), "00000000");
  EXPECT_EQ(all.substr(24, 6), (std::string{'\x08', 3, '\x10', 2, '\x22', 12}));
  float second = 0;
  std::memcpy(&second, all.data() + 34, 4);
  EXPECT_EQ(second, 3);
  Net net;
  net.input("x", {3});
  net.add("csv", csv_output({.path = folder + "/no/such/folder/x"}));
  net.prepare(1);
  EXPECT_THROW(net.forward(Phase::test), FileError);
}

TEST(SmallLayers, CropsAreRandomInTrainingAndCentredOtherwise) {
  Net net({.seed = 2});
  net.input("x", {5, 6, 1}).add("piece", image_preprocess({.crop = 3, .mirror = true, .scale = 10}));
  net.prepare(64);
  for (std::int64_t i = 0; i < 64 * 30; ++i) net.input_tensor("x").values<float>()[i] = static_cast<float>(i % 30);
  net.forward(Phase::test);
  EXPECT_EQ(net.output("piece").at(0), 10 * (6 + 1));
  EXPECT_EQ(net.output("piece").at(8), 10 * (18 + 3));
  net.forward(Phase::train, 1);
  std::set<std::pair<double, bool>> seen;
  for (std::int64_t n = 0; n < 64; ++n) {
    const double first = net.output("piece").at(n * 9) / 10, second = net.output("piece").at(n * 9 + 1) / 10;
    ASSERT_EQ(std::fabs(first - second), 1);
    seen.insert({first, second < first});
  }
  EXPECT_GT(seen.size(), 15U);  // of 24
}

}  // namespace
}  // namespace pleiad::nn

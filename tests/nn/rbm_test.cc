// Contrastive divergence: its gradients, its chains, and stacks that are trained machine by machine.
#include <gtest/gtest.h>

#include "core/threads.h"
#include "kernel/rbm.h"
#include "kernel/ref/rbm.h"
#include "pleiad/error.h"
#include "pleiad/stack.h"
#include "tests/file/folder.h"
#include "tests/nn/layer_bench.h"
#include "tests/train/small_run.h"

namespace pleiad::nn {
namespace {

TEST(Rbm, SamplesAreThoseOfTheStreamWithTheirProbability) {
  const Tensor p(DType::float64, {40, 101});
  for (std::int64_t i = 0; i < p.count(); ++i) p.values<double>()[i] = static_cast<double>(i % 101) / 100;
  const Tensor s(DType::float64, {40, 101});
  const RandomStream stream(3, "s");
  kernel::sample_binary({.stream = stream, .step = 5, .first_sample = 7, .first_block = 26}, p, s);
  for (std::int64_t i = 0; i < p.count(); ++i) {
    const auto element = static_cast<std::uint64_t>(4 * 26 + i % 101);
    const double u = stream.uniform(element, static_cast<std::uint32_t>(7 + i / 101), 5);
    ASSERT_EQ(s.at(i), u < p.at(i) ? 1 : 0) << i;
  }
  const Tensor g(DType::float32, {200, 50});
  kernel::sample_gaussian({.stream = stream, .step = 1, .first_sample = 0, .first_block = 0}, g, g);
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < g.count(); ++i) {
    sum += g.at(i);
    squares += g.at(i) * g.at(i);
  }
  EXPECT_NEAR(sum / 1e4, 0, 0.05);
  EXPECT_NEAR(squares / 1e4, 1, 0.05);
}

TEST(Rbm, GradientsAreThoseOfThePlainLoops) {
  set_compute_threads(2);
  for (unsigned seed = 0; seed < 36; ++seed) {
    std::mt19937 r(seed);
    const bool gv = pick(r, 0, 1) == 1, gh = pick(r, 0, 1) == 1;
    const bool binary = seed % 3 == 1, both = seed % 6 > 2;  // the kind of the visible units; which units are sampled
    const std::int64_t k = pick(r, 1, 3), hidden = pick(r, 1, 120), visible = pick(r, 1, 40), batch = pick(r, 1, 20);
    Bench bench("rbm",
                {{"hidden", std::to_string(hidden)},
                 {"k", std::to_string(k)},
                 {"visible_units", gv ? "gaussian" : "binary"},
                 {"hidden_units", gh ? "gaussian" : "binary"},
                 {"sample", both ? "both" : "hidden"}},
                {{batch, visible}}, DType::float64, seed);
    if (binary) {
      for (double& x : bench.pass.x[0].values<double>()) x = x > 0 ? 1 : 0;
    }
    bench.pass.seed = 9;
    bench.pass.step = 4;
    bench.pass.first_sample = 32;
    bench.gradients();
    const RandomStream stream(9, "layer");
    const auto blocks = static_cast<std::uint64_t>((std::max(hidden, visible) + 3) / 4);
    const auto drawn = [&](bool gaussian, std::int64_t draw, std::int64_t n, std::int64_t unit, double mean) {
      const auto sample = static_cast<std::uint32_t>(32 + n);
      const std::uint64_t block = static_cast<std::uint64_t>(draw) * blocks;
      if (gaussian) return mean + stream.gaussian(2 * block + static_cast<std::uint64_t>(unit), sample, 4);
      return stream.uniform(4 * block + static_cast<std::uint64_t>(unit), sample, 4) < mean ? 1.0 : 0.0;
    };
    using Drawn = std::function<double(std::int64_t, std::int64_t, std::int64_t, double)>;
    const Drawn visible_states = [&](std::int64_t n, std::int64_t step, std::int64_t unit, double mean) {
      return drawn(gv, 2 * step + 1, n, unit, mean);
    };
    const auto g = kernel::ref::contrastive_divergence<double>(
        {.gaussian_visible = gv, .gaussian_hidden = gh, .k = k}, bench.pass.x[0], bench.pass.parameter[0],
        bench.pass.parameter[1], bench.pass.parameter[2],
        [&](std::int64_t n, std::int64_t step, std::int64_t unit, double mean) {
          return drawn(gh, both ? 2 * step : step, n, unit, mean);
        },
        both ? visible_states : Drawn());
    const auto same = [&](const Tensor& ours, const std::vector<double>& expected, const char* what) {
      for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(ours.at(static_cast<std::int64_t>(i)), expected[i], 1e-9 * std::max(1.0, std::fabs(expected[i])))
            << what << ", seed " << seed;
      }
    };
    same(bench.pass.gradient[0], g.weight, "weight");
    same(bench.pass.gradient[1], g.hidden_bias, "hidden bias");
    same(bench.pass.gradient[2], g.visible_bias, "visible bias");
    EXPECT_NEAR(bench.pass.y[1].at(0), g.squared_error, 1e-9 * std::max(1.0, g.squared_error));
  }
}

/// A machine of 3 visible and 2 hidden units, small enough to sum over all states.
struct Tiny {
  static constexpr int kVisible = 3, kHidden = 2;
  double w[kHidden][kVisible] = {{0.8, -1.1, 0.5}, {-0.6, 0.9, 1.2}};
  double c[kHidden] = {0.3, -0.4};
  double b[kVisible] = {-0.2, 0.5, 0.1};

  static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
  [[nodiscard]] double up(int j, const double* v) const {
    double sum = c[j];
    for (int i = 0; i < kVisible; ++i) sum += w[j][i] * v[i];
    return sigmoid(sum);
  }
  [[nodiscard]] double down(int i, const double* h) const {
    double sum = b[i];
    for (int j = 0; j < kHidden; ++j) sum += w[j][i] * h[j];
    return sigmoid(sum);
  }
  static void bits(int state, int count, double* to) {
    for (int i = 0; i < count; ++i) to[i] = (state >> i) & 1;
  }
  void put(Bench& bench) const {
    for (int j = 0; j < kHidden; ++j) {
      bench.pass.parameter[1].values<double>()[j] = c[j];
      for (int i = 0; i < kVisible; ++i) bench.pass.parameter[0].values<double>()[j * kVisible + i] = w[j][i];
    }
    for (int i = 0; i < kVisible; ++i) bench.pass.parameter[2].values<double>()[i] = b[i];
  }
};

void fill_data(const Bench& bench) {  // half of the samples are (1, 0, 1), half (0, 1, 1)
  const double pattern[2][3] = {{1, 0, 1}, {0, 1, 1}};
  for (std::int64_t i = 0; i < bench.pass.x[0].count(); ++i)
    bench.pass.x[0].values<double>()[i] = pattern[i / 3 % 2][i % 3];
}

TEST(Rbm, CdOneIsOnAverageTheSumOverAllHiddenStates) {
  const Tiny tiny;
  Bench bench("rbm", {{"hidden", "2"}}, {{200000, 3}}, DType::float64, 1);
  tiny.put(bench);
  fill_data(bench);
  bench.gradients();
  const double pattern[2][3] = {{1, 0, 1}, {0, 1, 1}};
  double expected[Tiny::kHidden][Tiny::kVisible] = {};
  for (const auto& v : pattern) {
    for (int state = 0; state < 4; ++state) {
      double h[2];
      Tiny::bits(state, 2, h);
      double probability = 0.5;
      for (int j = 0; j < 2; ++j) probability *= h[j] > 0 ? tiny.up(j, v) : 1 - tiny.up(j, v);
      double back[3];
      for (int i = 0; i < 3; ++i) back[i] = tiny.down(i, h);
      for (int j = 0; j < 2; ++j) {
        for (int i = 0; i < 3; ++i) expected[j][i] += probability * (tiny.up(j, back) * back[i] - tiny.up(j, v) * v[i]);
      }
    }
  }
  for (int j = 0; j < 2; ++j) {
    for (int i = 0; i < 3; ++i) {
      EXPECT_NEAR(bench.pass.gradient[0].at(j * 3 + i), expected[j][i], 2e-3)
          << j << " " << i;  // 4 standard deviations
      EXPECT_GT(std::fabs(expected[j][i]), 0.005);
    }
  }
}

TEST(Rbm, LongPersistentChainsGiveTheGradientOfTheLikelihood) {
  const Tiny tiny;
  Bench bench("rbm", {{"hidden", "2"}, {"k", "60"}, {"chains", "60000"}, {"sample", "both"}}, {{2, 3}}, DType::float64,
              1);
  tiny.put(bench);
  fill_data(bench);
  bench.gradients();
  // Sums over all 32 states: the mean of h v under the model and under the data.
  double model[2][3] = {}, data[2][3] = {}, sum = 0;
  for (int state = 0; state < 32; ++state) {
    double h[2], v[3];
    Tiny::bits(state, 2, h);
    Tiny::bits(state >> 2, 3, v);
    double energy = 0;
    for (int j = 0; j < 2; ++j) {
      energy += tiny.c[j] * h[j];
      for (int i = 0; i < 3; ++i) energy += tiny.w[j][i] * h[j] * v[i];
    }
    for (int i = 0; i < 3; ++i) energy += tiny.b[i] * v[i];
    sum += std::exp(energy);
    for (int j = 0; j < 2; ++j) {
      for (int i = 0; i < 3; ++i) model[j][i] += std::exp(energy) * h[j] * v[i];
    }
  }
  const double pattern[2][3] = {{1, 0, 1}, {0, 1, 1}};
  for (const auto& v : pattern) {
    for (int j = 0; j < 2; ++j) {
      for (int i = 0; i < 3; ++i) data[j][i] += 0.5 * tiny.up(j, v) * v[i];
    }
  }
  for (int j = 0; j < 2; ++j) {
    for (int i = 0; i < 3; ++i) {
      EXPECT_NEAR(bench.pass.gradient[0].at(j * 3 + i), model[j][i] / sum - data[j][i], 8e-3) << j << " " << i;
    }
  }
}

/// Patterns of three bars, with noise.
std::vector<std::pair<std::string, Tensor>> bars(std::int64_t samples = 96) {
  const Tensor x(DType::float32, {samples, 12});
  const RandomStream noise(5, "bars");
  for (std::int64_t i = 0; i < x.count(); ++i) {
    const bool on = i % 12 / 4 == i / 12 % 3;
    const double u = noise.uniform(static_cast<std::uint64_t>(i));
    x.values<float>()[i] = static_cast<float>((u < 0.1) != on ? 1 : 0);
  }
  return {{"x", x}};
}

Net machine(const RbmOptions& options) {
  Net net({.seed = 3});
  net.input("x", {12}).add("rbm", rbm(options));
  return net;
}

TEST(RbmTraining, RanksExchangesAndResumedRunsGiveTheSameLosses) {
  for (const std::int64_t chains : {0, 8}) {
    const RbmOptions options{.hidden = 7, .k = 2, .chains = chains};
    TrainOptions train = test::options("momentum", "auto");
    const test::Folder folder;
    train.checkpoint_folder = folder.path().string();
    const auto run = [&](const std::string& exchange, Session* session) {
      Net net = machine(options);
      TrainOptions own = train;
      own.exchange = exchange;
      own.checkpoint_folder.clear();
      const auto trainer =
          session == nullptr ? std::make_unique<Trainer>(net, own) : std::make_unique<Trainer>(net, own, *session);
      return test::trace(*trainer, *array_samples(bars()));
    };
    const std::vector<double> alone = run("none", nullptr);
    ASSERT_EQ(alone.size(), 20U);
    EXPECT_LT(alone.back(), alone.front());
    for (const std::string exchange : {"all_reduce", "tables"}) {
      for (const int ranks : {2, 4}) {
        run_cluster(ranks, [&](Session& session) {
          const std::vector<double> losses = run(exchange, &session);
          for (std::size_t i = 0; i < alone.size(); ++i) {
            ASSERT_NEAR(losses[i], alone[i], 2e-5 * std::max(1.0, alone[i]))
                << exchange << " " << ranks << " step " << i;
          }
        });
      }
    }
    train.checkpoint = 7;
    std::vector<double> joined;
    for (const std::int64_t steps : {7, 20}) {
      Net net = machine(options);
      TrainOptions own = train;
      own.steps = steps;
      Trainer trainer(net, own);
      trainer.resume();
      for (const double loss : test::trace(trainer, *array_samples(bars()))) joined.push_back(loss);
    }
    EXPECT_EQ(joined, alone) << "chains " << chains;
  }
}

TEST(RbmTraining, FixedParametersStayAndGetNoGradient) {
  Net net({.seed = 3});
  net.input("label", {}, DType::int32).input("x", {8, 8, 2});
  net.add("a", dense({.out = 5, .activation = "tanh"})).add("b", dense({.out = 4}));
  net.add("loss", softmax_loss(), {.inputs = {"b", "label"}});
  net.fix("a/weight");
  net.fix("a/bias");
  EXPECT_FALSE(net.graph().needs_input_gradient("b"));
  const Tensor before = net.parameter("a/weight").value.clone();
  const Tensor trained = net.parameter("b/weight").value.clone();
  Trainer trainer(net, test::options("momentum", "none"));
  trainer.run(*test::samples());
  const auto differs = [](const Tensor& a, const Tensor& b) {
    for (std::int64_t i = 0; i < a.count(); ++i) {
      if (a.at(i) != b.at(i)) return true;
    }
    return false;
  };
  EXPECT_FALSE(differs(before, net.parameter("a/weight").value));
  EXPECT_TRUE(differs(trained, net.parameter("b/weight").value));
  net.fix("a/weight", false);
  net.prepare(trainer.local_batch());
  test::samples()->fill(net, 0, trainer.local_batch());
  (void)trainer.step();
  EXPECT_TRUE(differs(before, net.parameter("a/weight").value));
}

TEST(RbmStack, PreTrainedAndUnrolledItBeginsBelowRandomWeights) {
  for (const bool tied : {false, true}) {
    const StackOptions options{.visible = 12,
                               .hidden = {9, 5},
                               .rbm = {.weight_param = {.init = {.type = "gaussian", .std = 0.1}}},
                               .tied = tied};
    RbmStack stack(options);
    const auto loss_of = [&](Net net) {
      Trainer trainer(net, {.batch = 32});
      return trainer.evaluate(*array_samples(bars()), Phase::test).metrics[0].second;
    };
    const double random = loss_of(stack.unrolled());
    TrainOptions train{
        .batch = 16, .updater = {.rule = "momentum", .learning_rate = 0.1, .momentum = 0.5}, .steps = 200};
    ASSERT_TRUE(stack.pretrain(*array_samples(bars()), train));
    Net net = stack.unrolled();
    const double learnt = loss_of(stack.unrolled());
    EXPECT_LT(learnt, 0.8 * random) << tied;
    EXPECT_EQ(net.parameters().size(), tied ? 6U : 8U);
    train.updater.learning_rate = 0.02;
    Trainer trainer(net, train);
    trainer.run(*array_samples(bars()));
    EXPECT_LT(trainer.evaluate(*array_samples(bars()), Phase::test).metrics[0].second, learnt) << tied;
  }
}

TEST(RbmStack, AStoppedPreTrainingResumesWhereItStopped) {
  const StackOptions options{.visible = 12, .hidden = {6, 4}, .rbm = {.weight_param = {.init = {.std = 0.1}}}};
  TrainOptions train{.batch = 16, .updater = {.rule = "sgd", .learning_rate = 0.1}, .steps = 12};
  RbmStack whole(options);
  ASSERT_TRUE(whole.pretrain(*array_samples(bars()), train));
  train.checkpoint = 5;
  const test::Folder folder;
  train.checkpoint_folder = folder.path().string();
  RbmStack parts(options);
  const auto stop = [](std::size_t machine) {
    return TrainCalls{.stop = [machine](std::int64_t step) { return machine == 1 && step == 7; }};
  };
  EXPECT_FALSE(parts.pretrain(*array_samples(bars()), train, nullptr, stop));
  RbmStack again(options);
  ASSERT_TRUE(again.pretrain(*array_samples(bars()), train));
  const Net a = whole.unrolled(), b = again.unrolled();
  for (std::size_t p = 0; p < a.parameters().size(); ++p) {
    for (std::int64_t i = 0; i < a.parameters()[p].value.count(); ++i) {
      ASSERT_EQ(a.parameters()[p].value.at(i), b.parameters()[p].value.at(i)) << a.parameters()[p].name;
    }
  }
}

TEST(RbmStack, ErrorsNameTheField) {
  EXPECT_THROW(RbmStack({.visible = 0, .hidden = {3}}), InvalidArgument);
  EXPECT_THROW(RbmStack({.visible = 4, .hidden = {}}), InvalidArgument);
  EXPECT_THROW(RbmStack({.visible = 4, .hidden = {3}, .code_units = "poisson"}), InvalidArgument);
  EXPECT_THROW((void)make_layer("rbm", {{"hidden", "3"}, {"sample", "some"}}), InvalidArgument);
  EXPECT_THROW((void)make_layer("rbm"), InvalidArgument);
}

}  // namespace
}  // namespace pleiad::nn

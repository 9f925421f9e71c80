// Recurrent layers: known values, comparison with plain loops, back-propagation through time, state that is carried
// between batches.
#include <gtest/gtest.h>

#include "core/threads.h"
#include "kernel/ref/recurrent.h"
#include "pleiad/error.h"
#include "tests/file/folder.h"
#include "tests/nn/layer_bench.h"
#include "tests/train/small_run.h"

namespace pleiad::nn {
namespace {

TEST(Gru, HasTheValuesThatSingaHas) {
  Net net({.dtype = DType::float64});
  net.input("x", {2}, DType::int32);
  net.add("one_hot", one_hot({.words = 4}));
  const Param half{.init = {.type = "constant", .value = 0.5}};
  net.add("gru", gru({.hidden = 2, .weight_param = half, .recurrent_param = half, .bias_param = half}));
  net.prepare(3);
  for (std::int32_t i = 0; i < 6; ++i) net.input_tensor("x").values<std::int32_t>()[i] = i % 4;
  net.forward(Phase::test);
  const Tensor h = net.output("gru");
  for (std::int64_t i = 0; i < h.count(); ++i) EXPECT_NEAR(h.at(i), i / 2 % 2 == 0 ? 0.204824 : 0.346753, 1e-6) << i;
}

TEST(Recurrent, SamplesWithoutStepsAreSequencesOfOne) {
  for (const std::string kind : {"rnn", "gru", "lstm"}) {
    const LayerFields fields = {{"hidden", "5"}};
    Bench flat(kind, fields, {{3, 4}}, DType::float64, 2);
    Bench steps(kind, fields, {{3, 1, 4}}, DType::float64, 2);
    EXPECT_EQ(flat.pass.y[0].shape(), (Shape{3, 5})) << kind;
    (void)flat.value();
    (void)steps.value();
    for (std::int64_t i = 0; i < 15; ++i) EXPECT_EQ(flat.pass.y[0].at(i), steps.pass.y[0].at(i)) << kind << " " << i;
  }
}

TEST(Recurrent, EqualsThePlainLoopsOnManyThreads) {
  using kernel::Cell;
  set_compute_threads(2);
  for (unsigned seed = 0; seed < 18; ++seed) {
    std::mt19937 r(seed);
    const Cell cell = static_cast<Cell>(seed % 3);
    const std::string kind = cell == Cell::rnn ? "rnn" : cell == Cell::gru ? "gru" : "lstm";
    const bool bias = pick(r, 0, 1) == 1;
    const kernel::Recurrent geometry{
        .cell = cell, .batch = pick(r, 1, 30), .steps = pick(r, 1, 6), .in = pick(r, 1, 20), .hidden = pick(r, 1, 90)};
    for (const DType dtype : {DType::float32, DType::float64}) {
      Bench b(kind, {{"hidden", std::to_string(geometry.hidden)}, {"bias", bias ? "true" : "false"}, {"carry", "true"}},
              {{geometry.batch, geometry.steps, geometry.in}}, dtype, seed);
      for (const Tensor& p : b.pass.parameter) {
        for (std::int64_t i = 0; i < p.count(); ++i) {
          dtype == DType::float32 ? p.values<float>()[i] *= 0.3F : p.values<double>()[i] *= 0.3;
        }
      }
      (void)b.value();
      (void)(b.layer->forward(b.pass), 0);  // the second sequence begins where the first ended
      const Tensor y(dtype, b.pass.y[0].shape()), h(dtype, {geometry.batch, geometry.hidden});
      const Tensor c = cell == Cell::lstm ? Tensor(dtype, {geometry.batch, geometry.hidden}) : Tensor();
      const kernel::RecurrentParameters numbers{b.pass.parameter[0], b.pass.parameter[1],
                                                bias ? b.pass.parameter[2] : Tensor()};
      for (int twice = 0; twice < 2; ++twice) {
        dtype == DType::float32 ? kernel::ref::recurrent<float>(geometry, numbers, b.pass.x[0], y, h, c)
                                : kernel::ref::recurrent<double>(geometry, numbers, b.pass.x[0], y, h, c);
      }
      expect_close(b.pass.y[0], y, kind, dtype == DType::float32 ? 1e-4 : 1e-10);
      expect_close(b.pass.carried[0], h, kind + " carried", dtype == DType::float32 ? 1e-4 : 1e-10);
    }
  }
}

/// A net over (batch, 5) characters.
Net text_net(bool carry, DType dtype = DType::float64, const std::string& cell = "gru", std::int64_t hidden = 6,
             std::int64_t steps = 4, std::int64_t words = 3) {
  Net net({.dtype = dtype, .seed = 5});
  net.input("x", {steps + 1}, DType::int32);
  net.add("text", char_rnn());
  net.add("code", one_hot({.words = words}), {.inputs = {"text"}});
  net.add("cell", make_layer(cell, {{"hidden", std::to_string(hidden)}, {"carry", carry ? "true" : "false"}}));
  net.add("scores", dense({.out = words, .last_axis = true, .weight_param = {.init = {.type = "auto_uniform"}}}));
  net.add("loss", softmax_loss(), {.inputs = {"scores", "text:1"}});
  return net;
}

TEST(Bptt, ThroughAWholeNetMatchesFiniteDifferences) {
  for (const std::string cell : {"rnn", "gru", "lstm"}) {
    Net net = text_net(false, DType::float64, cell);
    net.prepare(3);
    for (std::int32_t i = 0; i < 15; ++i) net.input_tensor("x").values<std::int32_t>()[i] = i * 7 % 5 % 3;
    net.forward(Phase::train);
    net.backward();
    for (const Parameter& p : net.parameters()) {
      for (std::int64_t i = 0; i < p.value.count(); ++i) {
        double& v = p.value.values<double>()[i];
        const double before = v, gradient = p.gradient.at(i);
        v = before + 1e-6;
        net.forward(Phase::test);
        const double above = net.loss();
        v = before - 1e-6;
        net.forward(Phase::test);
        const double below = net.loss();
        v = before;
        ASSERT_NEAR(gradient, (above - below) / 2e-6, 1e-7) << cell << " " << p.name << " " << i;
      }
    }
  }
}

TEST(Bptt, CarriedStateMakesPiecesOneSequenceInForward) {
  const std::string text = "abcabbcaacbabcbbacabcc";
  for (const std::string cell : {"rnn", "gru", "lstm"}) {
    Net pieces = text_net(true, DType::float64, cell);
    Net whole = text_net(true, DType::float64, cell, 6, 20);
    pieces.prepare(1);
    whole.prepare(1);
    const auto four = text_samples(text, {.steps = 4});
    const auto all = text_samples(text, {.steps = 20});
    four->expect(1, 0, 1);
    all->expect(1, 0, 1);
    all->fill(whole, 0, 1);
    whole.forward(Phase::test);
    for (std::int64_t s = 0; s < 5; ++s) {
      four->fill(pieces, s, 1);
      pieces.forward(Phase::test);
      for (std::int64_t i = 0; i < 24; ++i) {
        ASSERT_NEAR(pieces.output("cell").at(i), whole.output("cell").at(s * 24 + i), 1e-12) << cell << " piece " << s;
      }
    }
    pieces.control().forget(Phase::test);
    four->fill(pieces, 0, 1);
    pieces.forward(Phase::test);
    EXPECT_NEAR(pieces.output("cell").at(0), whole.output("cell").at(0), 1e-12);
    EXPECT_EQ(pieces.control().carried()[0].second.at(0), 0) << "tests leave training's state alone";
  }
}

/// A Markov chain with known transition probabilities. Its entropy is a lower bound of every loss.
struct Grammar {
  static constexpr int kStates = 4;
  double next[kStates][kStates] = {
      {0.7, 0.1, 0.1, 0.1}, {0.05, 0.05, 0.85, 0.05}, {0.0, 0.3, 0.1, 0.6}, {0.8, 0.0, 0.2, 0.0}};

  [[nodiscard]] std::string text(std::int64_t length, std::uint64_t seed) const {
    const RandomStream stream(seed, "grammar");
    std::string out;
    int state = 0;
    for (std::int64_t i = 0; i < length; ++i) {
      out += static_cast<char>('a' + state);
      double u = stream.uniform(static_cast<std::uint64_t>(i));
      int to = 0;
      while (to + 1 < kStates && u >= next[state][to]) u -= next[state][to++];
      state = to;
    }
    return out;
  }
  /// The entropy of a character in nats, under the chain's stationary distribution.
  [[nodiscard]] double entropy() const {
    double p[kStates] = {1, 0, 0, 0};
    for (int i = 0; i < 1000; ++i) {
      double q[kStates] = {};
      for (int a = 0; a < kStates; ++a) {
        for (int b = 0; b < kStates; ++b) q[b] += p[a] * next[a][b];
      }
      std::copy(q, q + kStates, p);
    }
    double sum = 0;
    for (int a = 0; a < kStates; ++a) {
      for (const double n : next[a]) sum -= n > 0 ? p[a] * n * std::log(n) : 0;
    }
    return sum;
  }
};

TEST(CharRnn, LearnsAGrammarToUnderElevenTenthsOfItsEntropy) {
  const Grammar grammar;
  Net net = text_net(true, DType::float32, "gru", 24, 20, 4);
  TrainOptions options{.batch = 16, .updater = {.rule = "rmsprop", .learning_rate = 0.01}, .steps = 250};
  Trainer trainer(net, options);
  const std::string text = grammar.text(16 * 20 * 60, 1);
  trainer.run(*text_samples(text, {.steps = 20}));
  const double loss =
      trainer.evaluate(*text_samples(grammar.text(16 * 20 * 60, 2), {.steps = 20}), Phase::test).metrics[0].second;
  EXPECT_LT(loss, 1.1 * grammar.entropy());
  EXPECT_GT(loss, 0.93 * grammar.entropy()) << "nobody can know the next character better";
}

TEST(CharRnn, RanksAndResumedRunsGiveTheSameLosses) {
  const Grammar grammar;
  const std::string text = grammar.text(8 * 4 * 30, 3);
  TrainOptions options{
      .batch = 8, .updater = {.rule = "momentum", .learning_rate = 0.1, .momentum = 0.5}, .steps = 20, .display = 1};
  Net net = text_net(true, DType::float32, "lstm", 6, 4, 4);
  Trainer trainer(net, options);
  const std::vector<double> alone = test::trace(trainer, *text_samples(text, {.steps = 4}));
  run_cluster(2, [&](Session& session) {
    Net own = text_net(true, DType::float32, "lstm", 6, 4, 4);
    Trainer together(own, options, session);
    const std::vector<double> losses = test::trace(together, *text_samples(text, {.steps = 4}));
    for (std::size_t i = 0; i < alone.size(); ++i) ASSERT_NEAR(losses[i], alone[i], 1e-5) << i;
  });
  // Stopped on one rank and resumed on two: the carried state goes to the rank that has the samples.
  options.checkpoint = 9;
  const test::Folder folder;
  options.checkpoint_folder = folder.path().string();
  TrainOptions first = options;
  first.steps = 9;
  Net part = text_net(true, DType::float32, "lstm", 6, 4, 4);
  Trainer begun(part, first);
  (void)test::trace(begun, *text_samples(text, {.steps = 4}));
  {
    Net again = text_net(true, DType::float32, "lstm", 6, 4, 4);
    TrainOptions rest = options;
    rest.checkpoint = 0;
    Trainer resumed(again, rest);
    ASSERT_TRUE(resumed.resume());
    const std::vector<double> losses = test::trace(resumed, *text_samples(text, {.steps = 4}));
    EXPECT_EQ(losses, std::vector<double>(alone.begin() + 9, alone.end()));
  }
  run_cluster(2, [&](Session& session) {
    Net again = text_net(true, DType::float32, "lstm", 6, 4, 4);
    TrainOptions rest = options;
    rest.checkpoint = 0;
    Trainer resumed(again, rest, session);
    ASSERT_TRUE(resumed.resume());
    const std::vector<double> losses = test::trace(resumed, *text_samples(text, {.steps = 4}));
    for (std::size_t i = 0; i < losses.size(); ++i) ASSERT_NEAR(losses[i], alone[9 + i], 1e-5) << i;
  });
}

TEST(CharRnn, ErrorsNameTheMistake) {
  EXPECT_THROW((void)text_samples("ab", {.steps = 4}), InvalidArgument);
  EXPECT_THROW((void)text_samples("abcabc", {.steps = 2, .vocabulary = "ab"}), InvalidArgument);
  EXPECT_THROW((void)text_samples("abcabc", {.steps = 2, .vocabulary = "abca"}), InvalidArgument);
  Net net = text_net(false);
  net.prepare(1);
  net.input_tensor("x").values<std::int32_t>()[2] = 3;
  try {
    net.forward(Phase::test);
    FAIL();
  } catch (const InvalidArgument& mistake) {
    EXPECT_NE(std::string(mistake.what()).find("sample 0, position 2"), std::string::npos) << mistake.what();
  }
  Net other;
  other.input("x", {4});
  EXPECT_THROW(other.add("hot", one_hot({.words = 3})), InvalidArgument);
  EXPECT_NO_THROW(other.add("gru", gru({.hidden = 3})));  // samples without a time axis have one step
  Net images;
  images.input("x", {2, 3, 4});
  EXPECT_THROW(images.add("gru", gru({.hidden = 3})), InvalidArgument);
}

}  // namespace
}  // namespace pleiad::nn

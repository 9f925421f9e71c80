// Ranks that are given different nets, options or data; batches that the ranks do not divide; losses that are not
// finite.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "pleiad/error.h"
#include "tests/train/small_run.h"

namespace pleiad {
namespace {

using namespace pleiad::test;

/// Returns the error message of each of three ranks.
std::array<std::string, 3> said_by_ranks(const std::function<void(Session&)>& work) {
  std::array<std::string, 3> said;
  run_cluster(3, [&](Session& session) {
    std::string& own = said[static_cast<std::size_t>(session.rank())];
    try {
      work(session);
    } catch (const InvalidArgument& error) {
      own = error.what();
    }
    session.shutdown();
  });
  return said;
}

TEST(Same, TrainersCompareOptionsNetsAndSamples) {
  struct Case {
    std::function<void(TrainOptions&)> change;
    std::string words;
  };
  const std::vector<Case> cases = {
      {[](TrainOptions& o) { o.updater.learning_rate = 0.5; },
       "updater.learning_rate is 0.05 on rank 0 and 0.5 on rank 2"},
      {[](TrainOptions& o) { o.steps = 7; }, "steps is 20 on rank 0 and 7 on rank 2"},
      {[](TrainOptions& o) { o.batch = 24; }, "batch is 16 on rank 0 and 24 on rank 2"},
      {[](TrainOptions& o) { o.test = 3; }, "test is 0 on rank 0 and 3 on rank 2"},
      {[](TrainOptions& o) { o.schedule = {.type = "fixed", .base = 0.1}; }, "schedule is none on rank 0 and fixed"},
      {[](TrainOptions& o) { o.checkpoint_folder = "other"; }, "checkpoint_folder is  on rank 0 and other on rank 2"},
  };
  for (const Case& each : cases) {
    const auto said = said_by_ranks([&](Session& session) {
      nn::Net net = cnn();
      TrainOptions o = options("sgd", "all_reduce");
      if (session.rank() == 2) each.change(o);
      const Trainer trainer(net, o, session);
    });
    for (const std::string& words : said) {
      EXPECT_EQ(words, said[0]);
      EXPECT_NE(words.find("different jobs: " + each.words), std::string::npos) << words;
    }
  }
  const auto nets = said_by_ranks([](Session& session) {
    nn::Net net = cnn(4, session.rank() == 1);
    const Trainer trainer(net, options("sgd", "all_reduce"), session);
  });
  for (const std::string& words : nets)
    EXPECT_NE(words.find("layer \"bn\" is missing on rank 0"), std::string::npos) << words;
  const auto samples_differ = said_by_ranks([](Session& session) {
    nn::Net net = cnn();
    Trainer trainer(net, options("sgd", "all_reduce"), session);
    const auto from = array_samples(images(), {.shuffle = true, .seed = session.rank() == 1 ? 5U : 1U});
    (void)trainer.run(*from);
  });
  for (const std::string& words : samples_differ)
    EXPECT_NE(words.find("shuffled by seed 5"), std::string::npos) << words;
  // Seeds of the nets may differ; rank 0's seed is used.
  const auto seeds = said_by_ranks([](Session& session) {
    nn::Net net = cnn(static_cast<std::uint64_t>(session.rank()));
    const Trainer trainer(net, options("sgd", "all_reduce"), session);
  });
  for (const std::string& words : seeds) EXPECT_EQ(words, "");
}

TEST(Trainer, BatchesThatRanksDoNotDivideGiveTheLossesOfOneRank) {
  for (const bool batch_norm : {false, true}) {
    nn::Net alone = cnn(4, batch_norm);
    TrainOptions o = options("momentum", "none");
    o.batch = 17;
    o.test = 10;
    o.test_batch = 13;
    const auto reports_of = [](Trainer& trainer) {
      std::vector<double> all;
      const auto from = samples();
      const auto test = samples(false);
      trainer.run(*from, nullptr, test.get(), {.report = [&](const Report& report) {
        for (const auto& [name, value] : report.metrics) all.push_back(value);
        return true;
      }});
      return all;
    };
    Trainer one(alone, o);
    const std::vector<double> expected = reports_of(one);
    for (const auto& [ranks, exchange] :
         std::vector<std::pair<int, std::string>>{{2, "all_reduce"}, {3, "tables"}, {5, "all_reduce"}}) {
      run_cluster(ranks, [&, way = exchange](Session& session) {
        {
          nn::Net net = cnn(4, batch_norm);
          TrainOptions own = o;
          own.exchange = way;
          Trainer trainer(net, own, session);
          EXPECT_EQ(trainer.batch(), 17);
          const std::vector<double> got = reports_of(trainer);
          ASSERT_EQ(got.size(), expected.size());
          for (std::size_t i = 0; i < got.size(); ++i) {
            EXPECT_NEAR(got[i], expected[i], 2e-4 * std::abs(expected[i]) + 1e-6) << session.size() << ", " << i;
          }
        }
        session.shutdown();
      });
    }
  }
}

TEST(Trainer, ALossThatIsNotFiniteEndsTrainingAndEvaluationByDefault) {
  const auto words_of = [](bool evaluate, bool check) -> std::string {
    nn::Net net = cnn();
    TrainOptions o = options("sgd", "none");
    o.steps = 3;
    if (!check) o.check_finite = false;
    Trainer trainer(net, o);
    net.parameter("hidden/weight").value.values<float>()[0] = std::numeric_limits<float>::quiet_NaN();
    const auto from = samples();
    try {
      evaluate ? static_cast<void>(trainer.evaluate(*from, nn::Phase::test)) : static_cast<void>(trainer.run(*from));
    } catch (const StateError& error) {
      return error.what();
    }
    return "";
  };
  for (const bool evaluate : {false, true}) {
    const std::string words = words_of(evaluate, true);
    EXPECT_NE(words.find("step 0: the loss is "), std::string::npos) << words;
    EXPECT_NE(words.find("\"hidden\""), std::string::npos) << words;
    testing::internal::CaptureStderr();
    EXPECT_EQ(words_of(evaluate, false), "");
    const std::string printed = testing::internal::GetCapturedStderr();
    EXPECT_NE(printed.find("\"hidden\""), std::string::npos) << printed;
  }
}

}  // namespace
}  // namespace pleiad

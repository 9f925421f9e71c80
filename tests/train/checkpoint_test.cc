// Checkpoints: a run that is stopped anywhere and resumed is bit-identical to an uninterrupted run, and a failed save
// leaves the previous checkpoint intact.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>

#include "file/manifest.h"
#include "pleiad/error.h"
#include "tests/file/folder.h"
#include "tests/train/small_run.h"

namespace pleiad {
namespace {

using namespace pleiad::test;
using nn::Net;

/// Eight-bit images of two channels with labels, as a file holds them, read by a loader that crops and mirrors.
class StoredImages {
 public:
  StoredImages() {
    const auto all = images();
    for (std::int64_t n = 0; n < kSamples; ++n) {
      for (std::int64_t c = 0; c < 2; ++c) {
        for (std::int64_t p = 0; p < 64; ++p) {
          const double value = all[0].second.at(n * 128 + p * 2 + c);
          pixels_.push_back(static_cast<std::uint8_t>(std::clamp(value * 80 + 60, 0.0, 255.0)));
        }
      }
      labels_.push_back(static_cast<std::int32_t>(all[1].second.at(n)));
    }
  }
  [[nodiscard]] std::unique_ptr<Samples> samples(std::uint64_t seed = 3) const {
    std::shared_ptr<const Store> store =
        open_arrays({{.field = {.name = "data", .type = FieldType::uint8, .shape = {2, 8, 8}},
                      .bytes = std::as_bytes(std::span(pixels_))},
                     {.field = {.name = "label", .type = FieldType::int32, .shape = {}},
                      .bytes = std::as_bytes(std::span(labels_))}});
    return store_samples(store, {.seed = seed,
                                 .threads = 2,
                                 .transform = {.mean = {60},
                                               .scale = 1.0 / 80,
                                               .pad = 1,
                                               .crop_height = 8,
                                               .crop_width = 8,
                                               .random_crop = true,
                                               .mirror = true}});
  }

 private:
  std::vector<std::uint8_t> pixels_;
  std::vector<std::int32_t> labels_;
};

std::vector<std::vector<double>> numbers_of(const Net& net) {
  std::vector<std::vector<double>> all;
  for (const nn::Parameter& p : net.parameters()) {
    all.emplace_back();
    for (std::int64_t i = 0; i < p.value.count(); ++i) all.back().push_back(p.value.at(i));
  }
  for (const auto& [name, state] : net.states()) {
    all.emplace_back();
    for (std::int64_t i = 0; i < state.count(); ++i) all.back().push_back(state.at(i));
  }
  return all;
}

struct Case {
  const char* rule;
  const char* exchange;
  int ranks;
};

/// Trains to `stop` (0: to the end) after resuming from the folder if it has a checkpoint. Returns rank 0's losses and
/// the final values.
struct Result {
  std::vector<double> losses;
  std::vector<std::vector<double>> numbers;
};
Result run(const Case& c, const std::string& folder, std::int64_t stop, std::uint64_t seed = 4,
           const std::string& plan = "data") {
  static const StoredImages stored;
  Result result;
  run_cluster(c.ranks, [&](Session& session) {
    Net net = cnn(seed, true);
    {
      TrainOptions o = options(c.rule, c.exchange);
      o.steps = 14;
      o.checkpoint = 1000;
      o.checkpoint_folder = folder;
      o.plan.kind = plan;
      Trainer trainer(net, o, session);
      (void)trainer.resume();
      const auto from = stored.samples();
      const auto losses = trace(trainer, *from, {.stop = [&](std::int64_t step) { return step == stop; }});
      if (session.rank() == 0) result = {losses, numbers_of(net)};
    }
    session.shutdown();
  });
  return result;
}

class Resumed : public testing::TestWithParam<Case> {};

TEST_P(Resumed, IsBitIdenticalWhereverItStopped) {
  const Folder folder;
  const Result whole = run(GetParam(), folder / "whole", 0);
  ASSERT_EQ(whole.losses.size(), 14U);
  for (std::int64_t stop = 1; stop < 14; ++stop) {  // an epoch has six batches
    const std::string place = folder / ("stop" + std::to_string(stop));
    const Result first = run(GetParam(), place, stop);
    const Result rest = run(GetParam(), place, 0, 77);  // a different seed, which load_state replaces
    std::vector<double> losses = first.losses;
    losses.insert(losses.end(), rest.losses.begin(), rest.losses.end());
    EXPECT_EQ(losses, whole.losses) << "stopped after " << stop;
    EXPECT_EQ(rest.numbers, whole.numbers) << "stopped after " << stop;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Resumed,
                         testing::Values(Case{"sgd", "none", 1}, Case{"momentum", "none", 1}, Case{"adam", "none", 1},
                                         Case{"sgd", "all_reduce", 2}, Case{"momentum", "all_reduce", 2},
                                         Case{"adam", "all_reduce", 2}, Case{"sgd", "tables", 2},
                                         Case{"momentum", "tables", 2}, Case{"adam", "tables", 1},
                                         Case{"adam", "tables", 2}),
                         [](const auto& tested) {
                           return std::string(tested.param.rule) + "_" + tested.param.exchange + "_" +
                                  std::to_string(tested.param.ranks);
                         });

TEST(Checkpoint, ResumesWithOtherRanksExchangesAndPlans) {
  const Folder folder;
  const Result whole = run({"adam", "none", 1}, folder / "whole", 0);
  struct Other {
    Case begun, resumed;
    const char* plan_begun;
    const char* plan_resumed;
  };
  int number = 0;
  for (const Other& other : {Other{{"adam", "none", 1}, {"adam", "all_reduce", 2}, "data", "data"},
                             Other{{"adam", "all_reduce", 4}, {"adam", "none", 1}, "data", "data"},
                             Other{{"adam", "all_reduce", 2}, {"adam", "tables", 4}, "data", "data"},
                             Other{{"adam", "tables", 2}, {"adam", "all_reduce", 2}, "data", "feature"},
                             Other{{"adam", "all_reduce", 2}, {"adam", "all_reduce", 4}, "feature", "hybrid"},
                             Other{{"adam", "all_reduce", 4}, {"adam", "none", 1}, "feature", "data"}}) {
    const std::string place = folder / std::to_string(number++);
    std::vector<double> losses = run(other.begun, place, 5, 4, other.plan_begun).losses;
    const Result rest = run(other.resumed, place, 0, 77, other.plan_resumed);
    losses.insert(losses.end(), rest.losses.begin(), rest.losses.end());
    ASSERT_EQ(losses.size(), whole.losses.size()) << number;
    for (std::size_t i = 0; i < losses.size(); ++i) {
      EXPECT_NEAR(losses[i], whole.losses[i], 1e-5 * std::max(1.0, whole.losses[i])) << number << ", step " << i;
    }
  }
}

TEST(Checkpoint, IsKeptAtItsFrequencyAndTheLastOnes) {
  const Folder folder;
  Net net = cnn();
  TrainOptions o = options("momentum", "none");
  o.checkpoint = 3;
  o.checkpoint_after = 6;
  o.checkpoint_keep = 2;
  o.checkpoint_folder = folder / "kept";
  Trainer trainer(net, o);
  std::vector<std::int64_t> steps;
  const auto from = samples();
  (void)trace(trainer, *from, {.checkpoint = [&](std::int64_t step) {
                steps.push_back(step);
                return true;
              }});
  EXPECT_EQ(steps, (std::vector<std::int64_t>{6, 9, 12, 15, 18, 20}));
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "kept"))
    names.push_back(entry.path().filename());
  std::ranges::sort(names);
  EXPECT_EQ(names, (std::vector<std::string>{"step-00000018", "step-00000020"}));
  // The checkpoint contains the net and its values.
  Net again = load_net(folder / "kept" / "step-00000020");
  EXPECT_EQ(again.text(), net.text());
  EXPECT_EQ(numbers_of(again), numbers_of(net));
}

TEST(Checkpoint, OnAFullDiskLeavesThePreviousOneIntact) {
  const Folder folder;
  const std::string place = folder / "full";
  for (const int ranks : {1, 2}) {
    std::filesystem::remove_all(place);
    std::vector<std::string> errors;
    run_cluster(ranks, [&](Session& session) {
      Net net = cnn();
      {
        TrainOptions o = options("adam", "auto");
        o.checkpoint = 5;
        o.checkpoint_folder = place;
        Trainer trainer(net, o, session);
        const auto from = samples();
        // From step 10 on, files may have only a few blocks, as on a full disk.
        const auto limit = [&](rlim_t bytes) {
          if (session.rank() != 0) return;
          struct rlimit was{};
          getrlimit(RLIMIT_FSIZE, &was);
          was.rlim_cur = bytes;
          setrlimit(RLIMIT_FSIZE, &was);
        };
        const auto before = std::signal(SIGXFSZ, SIG_IGN);
        EXPECT_TRUE(trainer.run(*from, nullptr, nullptr,
                                {.stop =
                                     [&](std::int64_t step) {
                                       if (step == 8) limit(6000);
                                       if (step == 12) limit(RLIM_INFINITY);
                                       return false;
                                     },
                                 .checkpoint_failed =
                                     [&](const std::string& error) {
                                       if (session.rank() == 0) {
                                         errors.push_back(error);
                                         const std::vector<std::int64_t> whole = {5};
                                         std::vector<std::string> names;
                                         for (const auto& e : std::filesystem::directory_iterator(place)) {
                                           names.push_back(e.path().filename());
                                         }
                                         EXPECT_EQ(names, std::vector<std::string>{"step-00000005"});
                                       }
                                       return true;
                                     }}));
        std::signal(SIGXFSZ, before);
        EXPECT_EQ(trainer.current_step(), 20);
        trainer.load(place + "/step-00000005");
        EXPECT_EQ(trainer.current_step(), 5);
        EXPECT_TRUE(trainer.resume());
        EXPECT_EQ(trainer.current_step(), 20);
      }
      session.shutdown();
    });
    ASSERT_EQ(errors.size(), 1U);
    EXPECT_NE(errors[0].find("cannot be written: File too large"), std::string::npos) << errors[0];
    EXPECT_NE(errors[0].find("step-00000010"), std::string::npos) << errors[0];
  }
}

TEST(Checkpoint, WithoutSomebodyToAskEndsTheRunThatCannotBeSaved) {
  Net net = cnn();
  TrainOptions o = options("sgd", "none");
  o.checkpoint = 5;
  o.checkpoint_folder = "/proc/none";
  Trainer trainer(net, o);
  const auto from = samples();
  expect_error<FileError>([&] { (void)trainer.run(*from); }, {"/proc/none/step-00000005", "cannot be created"});
  EXPECT_EQ(trainer.current_step(), 5);
}

TEST(Checkpoint, ThatIsDamagedIsPassedOver) {
  const Folder folder;
  TrainOptions o = options("momentum", "none");
  o.checkpoint = 8;
  o.checkpoint_folder = folder / "run";
  {
    Net net = cnn();
    Trainer trainer(net, o);
    (void)trainer.run(*samples());
  }
  const auto last = folder / "run" / "step-00000020";
  for (const auto& entry : std::filesystem::directory_iterator(last)) {
    if (entry.path().extension() != ".safetensors") continue;
    std::string bytes = slurp(entry.path());
    bytes[bytes.size() / 2] ^= 1;
    spit(entry.path(), bytes);
  }
  Net net = cnn(9);
  Trainer trainer(net, o);
  expect_error<FileError>([&] { trainer.load(last); }, {"step-00000020", "is damaged"});
  EXPECT_EQ(trainer.current_step(), 0);
  testing::internal::CaptureStderr();
  EXPECT_TRUE(trainer.resume());
  EXPECT_NE(testing::internal::GetCapturedStderr().find("is damaged"), std::string::npos);
  EXPECT_EQ(trainer.current_step(), 16);
}

TEST(Checkpoint, OfAnotherNetRuleOrDataIsRefused) {
  const Folder folder;
  const std::string place = folder / "one";
  {
    Net net = cnn();
    Trainer trainer(net, options("momentum", "none"));
    (void)trainer.run(*samples());
    trainer.save(place);
    trainer.save(place);  // saves again at the same step
  }
  Net other = cnn(4, true);
  Trainer with_norm(other, options("momentum", "none"));
  expect_error<FileError>([&] { with_norm.load(place); }, {place, "a different net", "activation", "relu"});
  Net same = cnn();
  {
    Trainer adam(same, options("adam", "none"));
    expect_error<FileError>([&] { adam.load(place); }, {"\"momentum\"", "\"adam\""});
  }
  TrainOptions longer = options("momentum", "none");
  longer.steps = 25;
  Trainer trainer(same, longer);
  expect_error<FileError>([&] { trainer.load(folder / "none"); }, {"none", "manifest.json"});
  trainer.load(place);
  const auto in_order = samples(false);
  expect_error<InvalidArgument>([&] { (void)trainer.run(*in_order); }, {"shuffled by seed 1", "in order"});
  EXPECT_FALSE(Trainer(same,
                       [&] {
                         TrainOptions o = options("momentum", "none");
                         o.checkpoint_folder = folder / "empty";
                         return o;
                       }())
                   .resume());
}

}  // namespace
}  // namespace pleiad

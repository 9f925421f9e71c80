// Fields of a job, each tested by its effect.
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "job/job.pb.h"
#include "pleiad/error.h"
#include "pleiad/train.h"
#include "tests/job/small_job.h"

namespace pleiad::test {
namespace {

/// Returns a small job in whose text the first string of each pair is replaced by the second.
Job changed(const Folder& folder, const SmallJob& job,
            const std::vector<std::pair<std::string, std::string>>& changes) {
  (void)points(folder);
  std::string text = small_text(folder, job);
  for (const auto& [from, to] : changes) {
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    if (at != std::string::npos) text.replace(at, from.size(), to);
  }
  return Job::from_text(text, "small.conf");
}

std::vector<double> numbers(const Tensor& tensor) {
  std::vector<double> all;
  for (std::int64_t i = 0; i < tensor.count(); ++i) all.push_back(tensor.at(i));
  return all;
}

/// Returns the parameter of this name after the job has run, or all parameters if the name is empty.
std::vector<double> after(const Job& job, const std::string& name) {
  const nn::Net net = net_of_job(job, run_job(job, silent()).checkpoint);
  std::vector<double> all;
  for (const nn::Parameter& p : net.parameters()) {
    if (!name.empty() && p.name != name) continue;
    for (const double number : numbers(p.value)) all.push_back(number);
  }
  EXPECT_FALSE(all.empty()) << name;
  return all;
}

/// Returns the loss of the only test in a job's report.
double tested(const JobResult& result, const std::string& phase = "test") {
  for (const JobReport& report : result.reports) {
    if (report.phase == phase) return metric(report, "loss");
  }
  return std::nan("");
}

/// Writes the lines of the points for which `wanted` is true to another file.
std::string lines_of(const Folder& folder, const std::string& name, const std::function<bool(int)>& wanted) {
  (void)points(folder);
  std::ifstream from((folder / "points.csv").string());
  const std::string path = (folder / name).string();
  std::ofstream to(path);
  int i = 0;
  for (std::string line; std::getline(from, line); ++i) {
    if (wanted(i)) to << line << "\n";
  }
  return path;
}

TEST(JobFields, GroupsThatExchangeSeldomLearnApart) {
  const Folder folder;
  const std::string rows = "points.csv\" batchsize: 24";
  // The first 24 records of a batch belong to the first group.
  (void)lines_of(folder, "first.csv", [](int i) { return i / 24 % 2 == 0; });
  (void)lines_of(folder, "second.csv", [](int i) { return i / 24 % 2 == 1; });
  const SmallJob asked{.more = "disp_freq: 1"};
  const std::vector<double> first =
      losses(run_job(changed(folder, asked, {{rows, "first.csv\" batchsize: 24"}}), silent()));
  const std::vector<double> second =
      losses(run_job(changed(folder, asked, {{rows, "second.csv\" batchsize: 24"}}), silent()));
  SmallJob apart = asked;
  apart.cluster = "nworker_groups: 2 nserver_groups: 2 sync_freq: 1000";
  const std::vector<double> both = losses(run_job(changed(folder, apart, {}), silent()));
  ASSERT_EQ(both.size(), 20U);
  for (std::size_t i = 0; i < both.size(); ++i) {
    EXPECT_NEAR(both[i], (first[i] + second[i]) / 2, 1e-5) << "step " << i;
    EXPECT_NE(first[i], second[i]);
  }
}

TEST(JobFields, ARandomSkipMovesTheFirstRecord) {
  const Folder folder;
  const auto run = [&](const std::string& skip, const std::string& seed) {
    return losses(run_job(
        changed(folder, {.more = "disp_freq: 1 " + seed}, {{"batchsize: 24", "batchsize: 24 random_skip: " + skip}}),
        silent()));
  };
  const std::vector<double> skipped = run("100", "seed: 5"), begun = run("0", "seed: 5");
  EXPECT_NE(skipped, begun);
  EXPECT_EQ(skipped, run("100", "seed: 5"));
  EXPECT_NE(skipped, run("100", "seed: 6"));
}

TEST(JobFields, TestsAndValidationsTakeSoManyBatches) {
  const Folder folder;
  (void)lines_of(folder, "forty.csv", [](int i) { return i < 40; });
  for (const std::string phase : {"test", "validate"}) {
    const auto run = [&](const std::string& steps, const std::string& file) {
      const std::string more = fmt::format("{0}_freq: 100 {0}_steps: {1}", phase, steps);
      return tested(
          run_job(changed(folder, {.more = more}, {{"points.csv\" batchsize: 40", file + "\" batchsize: 40"}}),
                  silent()),
          phase);
    };
    const double all = run("0", "points.csv"), one = run("1", "points.csv");
    EXPECT_EQ(run("6", "points.csv"), all) << phase;
    EXPECT_EQ(run("0", "forty.csv"), one) << phase;
    EXPECT_NE(all, one) << phase;
  }
}

TEST(JobFields, ThingsBeginAfterTheirStep) {
  const Folder folder;
  const std::string more =
      "disp_freq: 6 disp_after: 4 test_freq: 10 test_after: 7 validate_freq: 5 validate_after: 12 checkpoint_freq: 8 "
      "checkpoint_after: 3";
  const JobResult result = run_job(changed(folder, {.more = more}, {}), silent());
  std::vector<std::pair<std::string, std::int64_t>> seen;
  for (const JobReport& report : result.reports) seen.emplace_back(report.phase, report.step);
  const std::vector<std::pair<std::string, std::int64_t>> expected = {{"train", 4},     {"test", 7},   {"train", 10},
                                                                      {"validate", 12}, {"train", 16}, {"validate", 17},
                                                                      {"test", 17},     {"test", 20}};
  EXPECT_EQ(seen, expected);
  std::vector<std::string> kept;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "work" / "checkpoint")) {
    if (entry.is_regular_file()) kept.push_back(entry.path().filename().string());
  }
  std::ranges::sort(kept);
  EXPECT_EQ(kept, (std::vector<std::string>{"step11-worker0", "step19-worker0", "step20-worker0", "step3-worker0"}));
}

TEST(JobFields, ScalesMultiplyTheRateAndTheDecay) {
  const Folder folder;
  const auto weights = [&](double rate, const std::string& scales) {
    SmallJob asked{.steps = 1, .more = "checkpoint_freq: 1"};
    asked.updater = fmt::format("type: kSGD weight_decay: 0.5 learning_rate {{ type: kFixed base_lr: {} }}", rate);
    return after(changed(folder, asked, {{"name: \"w1\"", "name: \"w1\" " + scales}}), "hidden/weight");
  };
  const std::vector<double> begin = weights(1e-30, ""), once = weights(0.1, "wd_scale: 0");
  const std::vector<double> twice = weights(0.1, "lr_scale: 2 wd_scale: 0"), decayed = weights(0.1, "wd_scale: 3");
  double moved = 0;
  for (std::size_t i = 0; i < begin.size(); ++i) {
    moved = std::max(moved, std::abs(once[i] - begin[i]));
    EXPECT_NEAR(twice[i] - begin[i], 2 * (once[i] - begin[i]), 1e-6);
    EXPECT_NEAR(decayed[i] - once[i], -0.1 * 0.5 * 3 * begin[i], 1e-6);
  }
  EXPECT_GT(moved, 1e-3);
}

TEST(JobFields, InitsTakeTheirNumbers) {
  const Folder folder;
  const auto begins = [&](const std::string& init) {
    return numbers(
        net_of_job(changed(folder, {}, {{"type: kGaussian std: 0.5", init}})).parameter("hidden/weight").value);
  };
  for (const double w : begins("type: kConstant value: 3")) EXPECT_EQ(w, 3);
  for (const double w : begins("type: kGaussian mean: 5 std: 0.01")) EXPECT_NEAR(w, 5, 0.1);
  for (const double w : begins("type: kUniform low: 2 high: 3")) EXPECT_TRUE(w >= 2 && w <= 3) << w;
  for (const double w : begins("type: kUniform low: 2 high: 3 value: 10")) EXPECT_TRUE(w >= 20 && w <= 30) << w;
}

TEST(JobFields, SharedParametersAreOne) {
  const Folder folder;
  const std::string again =
      "layer { name: \"again\" type: kInnerProduct srclayers: \"act\" innerproduct_conf { num_output: 8 } "
      "param { name: \"w3\" SHARE init { type: kGaussian std: 0.5 } } param { name: \"b3\" init { type: kConstant "
      "value: 0 } } }\nlayer { name: \"more\" type: kInnerProduct srclayers: \"again\" innerproduct_conf { num_output: "
      "8 "
      "} param { name: \"w4\" init { type: kGaussian std: 0.5 } } param { name: \"b4\" init { type: kConstant value: 0 "
      "} "
      "} }\n  layer {\n    name: \"scores\"";
  const auto job = [&](const std::string& share) {
    std::string layers = again;
    // The layer that shares w4 comes after the layer that owns it.
    layers.replace(layers.find("SHARE"), 5, "");
    layers.replace(layers.find("name: \"w4\""), 10, "name: \"w4\" " + share);
    return changed(folder, {.more = "disp_freq: 1 checkpoint_freq: 20"},
                   {{"layer {\n    name: \"scores\"", layers}, {"srclayers: \"act\"\n", "srclayers: \"more\"\n"}});
  };
  const nn::Net apart = net_of_job(job("")), shared = net_of_job(job("share_from: \"w3\""));
  EXPECT_EQ(shared.parameters().size() + 1, apart.parameters().size());
  const JobResult result = run_job(job("share_from: \"w3\""), silent());
  const std::vector<double> all = losses(result);
  EXPECT_LT(all.back(), all.front());
  std::ifstream file(result.checkpoint, std::ios::binary);
  job::BlobProtos blobs;
  ASSERT_TRUE(blobs.ParseFromIstream(&file));
  EXPECT_EQ(std::ranges::count(blobs.name(), std::string("0#w4")), 0) << "it is saved under its owner's name";
  EXPECT_NE(all, losses(run_job(job(""), silent())));
}

TEST(JobFields, LossesHaveAScaleAndAccuraciesATopK) {
  const Folder folder;
  const auto run = [&](const std::string& conf) {
    return run_job(changed(folder, {.steps = 1, .more = "disp_freq: 1"},
                           {{"type: kSoftmaxLoss", "type: kSoftmaxLoss softmaxloss_conf { " + conf + " }"}}),
                   silent())
        .reports[0];
  };
  EXPECT_NEAR(metric(run("scale: 3"), "loss"), 3 * metric(run(""), "loss"), 1e-5);
  EXPECT_EQ(metric(run("topk: 3"), "acc"), 1);
  EXPECT_LT(metric(run(""), "acc"), metric(run("topk: 2"), "acc"));
}

TEST(JobFields, UpdatersSetRuleSettingsAndRates) {
  const auto of = [](const std::string& text) {
    job::UpdaterProto proto;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto)) << text;
    return updater_of_job(proto.SerializeAsString());
  };
  const auto rate = [&](const std::string& text, std::int64_t step) {
    return nn::rate_at(of("type: kSGD learning_rate { base_lr: 0.8 " + text + " }").second, step);
  };
  EXPECT_DOUBLE_EQ(rate("type: kFixed", 9), 0.8);
  EXPECT_DOUBLE_EQ(rate("type: kStep step_conf { change_freq: 5 gamma: 0.5 }", 11), 0.2);
  EXPECT_DOUBLE_EQ(rate("type: kLinear linear_conf { change_freq: 10 final_lr: 0.3 }", 4), 0.6);
  EXPECT_DOUBLE_EQ(rate("type: kExponential exponential_conf { change_freq: 5 }", 10), 0.2);
  EXPECT_DOUBLE_EQ(rate("type: kInverse inverse_conf { gamma: 1 pow: 2 }", 1), 0.2);
  EXPECT_DOUBLE_EQ(rate("type: kInverseT inverset_conf { final_lr: 2 }", 6), 0.2);
  const std::string table = "type: kFixedStep fixedstep_conf { step: 0 step: 7 step_lr: 0.1 step_lr: 0.01 }";
  EXPECT_DOUBLE_EQ(rate(table, 6), 0.1);
  EXPECT_DOUBLE_EQ(rate(table, 7), 0.01);
  const UpdaterOptions all = of("type: kRMSProp rmsprop_conf { rho: 0.7 } weight_decay: 0.1 delta: 0.2 clip_low: -3 "
                                "clip_high: 4 learning_rate { type: kFixed }")
                                 .first;
  EXPECT_EQ(std::tuple(all.rule, all.decay, all.weight_decay, all.epsilon, all.clip_low, all.clip_high),
            std::tuple("singa/rmsprop", 0.7, 0.1, 0.2, -3.0, 4.0));
  EXPECT_EQ(of("type: kSGD momentum: 0.9 learning_rate { type: kFixed }").first.momentum, 0.9);
}

TEST(JobFields, TheLastOfSeveralCheckpointsWithAParameterIsUsed) {
  const Folder folder, other;
  const Job job = changed(folder, {.more = "checkpoint_freq: 20"}, {});
  const std::string first = run_job(job, silent()).checkpoint;
  const std::string second = run_job(changed(other, {.more = "checkpoint_freq: 20 seed: 9"}, {}), silent()).checkpoint;
  const auto begins = [&](const std::string& a, const std::string& b) {
    nn::Net net = net_of_job(job.with(fmt::format("checkpoint_path: \"{}\" checkpoint_path: \"{}\"", a, b)));
    return numbers(net.parameter("hidden/weight").value);
  };
  EXPECT_NE(begins(first, second), begins(second, first));
  EXPECT_EQ(begins(first, second), begins(second, second));
}

TEST(JobFields, ParametersSplitOverWorkersAreSavedWhole) {
  const Folder folder;
  const SmallJob asked{
      .more = "test_freq: 20 checkpoint_freq: 20", .cluster = "nworkers_per_group: 2", .hidden = "partition_dim: 1"};
  const JobResult result = run_job(changed(folder, asked, {}), silent());
  JobOptions test = silent();
  test.test = true;
  const Job alone = changed(folder, {.more = fmt::format("checkpoint_path: \"{}\"", result.checkpoint)}, {});
  EXPECT_NEAR(metric(run_job(alone, test).reports[0], "loss"), metric(result.reports.back(), "loss"), 1e-6);
}

/// A machine of five hidden units on top of two input units.
std::string machine_text(const Folder& folder, const std::string& more, const std::string& hidden = "") {
  return fmt::format(R"(name: "machine" train_steps: 8 checkpoint_freq: 8
train_one_batch {{ alg: kCD {} }}
updater {{ type: kSGD weight_decay: 0.1 learning_rate {{ type: kFixed base_lr: 0.1 }} }}
neuralnet {{
  layer {{ name: "data" type: kCSVInput store_conf {{ path: "{}" batchsize: 24 shape: 4 }} }}
  layer {{ name: "below" type: kInnerProduct srclayers: "data" innerproduct_conf {{ num_output: 6 }}
    param {{ name: "w1" init {{ type: kGaussian std: 0.5 }} }} param {{ name: "b1" init {{ type: kConstant value: 0 }} }} }}
  layer {{ name: "up" type: kSigmoid srclayers: "below" }}
  layer {{ name: "vis" type: kRBMVis srclayers: "up" srclayers: "hid" rbm_conf {{ hdim: 5 }} }}
  layer {{ name: "hid" type: kRBMHid srclayers: "vis" rbm_conf {{ hdim: 5 {} }} }}
}}
cluster {{ workspace: "{}" }})",
                     more, (folder / "points.csv").string(), hidden, (folder / "work").string());
}

TEST(JobFields, MachinesBelowKeepTheirNumbersAndChainsTheirLength) {
  const Folder folder;
  (void)points(folder);
  const Job job = Job::from_text(machine_text(folder, ""));
  nn::Net begins = net_of_job(job);
  EXPECT_EQ(after(job, "below/weight"), numbers(begins.parameter("below/weight").value));
  const std::vector<double> learnt = after(job, "vis/weight");
  EXPECT_NE(learnt, numbers(begins.parameter("vis/weight").value));
  EXPECT_NE(learnt, after(Job::from_text(machine_text(folder, "cd_conf { cd_k: 3 }")), "vis/weight"));
  EXPECT_NE(learnt, after(Job::from_text(machine_text(folder, "", "gaussian: true")), "vis/weight"));
}

TEST(JobFields, GatesAreSingas) {
  const Folder folder;
  std::ofstream((folder / "text.txt").string()) << "abcdabcdabcdabcd";
  std::ofstream((folder / "vocab.txt").string()) << "abcd";
  const auto text = [&](int steps) {
    std::string params;
    for (const char* name : {"wz", "wr", "wc", "uz", "ur", "uc", "bz", "br", "bc"}) {
      params += fmt::format(" param {{ name: \"{}\" init {{ type: kConstant value: 0.5 }} }}", name);
    }
    return fmt::format(R"(name: "gates" train_steps: 1
train_one_batch {{ alg: kBPTT }}
updater {{ type: kSGD learning_rate {{ type: kFixed base_lr: 0.1 }} }}
neuralnet {{
  unroll_len: 2
  layer {{ name: "data" type: kCharRNN char_rnn_conf {{ path: "{0}/text.txt" vocab_path: "{0}/vocab.txt" batchsize: 1 unroll_len: {1} }} }}
  layer {{ name: "code" type: kOneHot srclayers: "data" onehot_conf {{ vocab_size: 4 }} }}
  layer {{ name: "gru" type: kGRU srclayers: "code" gru_conf {{ dim_hidden: 3 }}{2} }}
  layer {{ name: "ip" type: kInnerProduct srclayers: "gru" innerproduct_conf {{ num_output: 4 }} }}
  layer {{ name: "label" type: kRNNLabel srclayers: "data" }}
  layer {{ name: "loss" type: kSoftmaxLoss srclayers: "ip" srclayers: "label" }}
}}
cluster {{ workspace: "{0}/work" }})",
                       folder.path().string(), steps, params);
  };
  const Job job = Job::from_text(text(2));
  nn::Net begins = net_of_job(job);
  // h = z h' + (1 - z) c: with z = 1 the state stays at its initial 0, and r has no effect on a state of 0.
  const auto first_state = [&](const std::string& open) {
    const std::string path = (folder / "gates.bin").string();
    save_job_checkpoint(job, begins, path);
    std::ifstream file(path, std::ios::binary);
    job::BlobProtos blobs;
    EXPECT_TRUE(blobs.ParseFromIstream(&file));
    for (int i = 0; i < blobs.name_size(); ++i) {
      if (blobs.name(i) != "0#" + open) continue;
      for (float& number : *blobs.mutable_blob(i)->mutable_data()) number = 30;
    }
    std::ofstream(path, std::ios::binary) << blobs.SerializeAsString();
    nn::Net net = net_of_job(job, path);
    net.prepare(1);
    for (std::int32_t& symbol : net.input_tensor("data").values<std::int32_t>()) symbol = 1;
    net.forward(nn::Phase::test);
    return net.output("gru").at(0);
  };
  EXPECT_NEAR(first_state("none"), 0.204824, 1e-5);
  EXPECT_NEAR(first_state("bz"), 0, 1e-6);
  EXPECT_NEAR(first_state("br"), first_state("none"), 1e-6);
  EXPECT_GT(first_state("bc"), 0.25);
  try {
    (void)net_of_job(Job::from_text(text(3)));
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("char_rnn_conf.unroll_len: expected the value of the net, 2; received 3"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace pleiad::test

// Complete runs of jobs: results, checkpoints, clusters.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "file/safetensors.h"
#include "job/job.pb.h"
#include "pleiad/error.h"
#include "pleiad/nn/layers.h"
#include "pleiad/rule.h"
#include "pleiad/train.h"
#include "tests/job/small_job.h"

namespace pleiad::test {
namespace {

constexpr const char* kEvery = "disp_freq: 1";

void expect_near(const std::vector<double>& a, const std::vector<double>& b, double relative) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], relative * std::abs(b[i])) << "step " << i;
}

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Job, LearnsAndReportsInSingasOrder) {
  const Folder folder;
  const Job job =
      small_job(folder, {.steps = 60, .more = "disp_freq: 30 test_freq: 20 test_steps: 6 validate_freq: 50"});
  const JobResult result = run_job(job, silent());
  std::vector<std::pair<std::int64_t, std::string>> order;
  for (const JobReport& report : result.reports) order.emplace_back(report.step, report.phase);
  const std::vector<std::pair<std::int64_t, std::string>> expected = {{0, "validate"},  {0, "test"},   {0, "train"},
                                                                      {20, "test"},     {30, "train"}, {40, "test"},
                                                                      {50, "validate"}, {60, "test"}};
  EXPECT_EQ(order, expected);
  EXPECT_TRUE(result.ended);
  EXPECT_EQ(result.step, 60);
  EXPECT_GT(metric(result.reports.back(), "acc"), 0.95);
  EXPECT_LT(metric(result.reports.back(), "loss"), 0.3);
  const std::string csv = content((folder / "work" / "results.csv").string());
  EXPECT_EQ(csv.substr(0, csv.find('\n')), "step,phase,loss,acc,se,ppl,samples_per_second");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 9);
  EXPECT_NE(content((folder / "work" / "results.json").string()).find("\"phase\": \"validate\""), std::string::npos);
  EXPECT_NE(content((folder / "work" / "job.log").string()).find("Test step 60"), std::string::npos);
}

TEST(Job, TheRateOfTrainingHasNoTestsInIt) {
  const Folder folder;
  const Job job = small_job(folder, {.steps = 40, .more = "disp_freq: 1 test_freq: 1 validate_freq: 1"});
  const auto start = std::chrono::steady_clock::now();
  const JobResult result = run_job(job, silent());
  const std::chrono::duration<double> all = std::chrono::steady_clock::now() - start;
  double told = 0;  // the times of all reports do not overlap, so their sum is at most the total
  for (const JobReport& report : result.reports) {
    told += (report.phase == "train" ? 24 : 240) / report.samples_per_second;
  }
  EXPECT_LE(told, all.count() * (1 + 1e-9));
}

TEST(Job, StoppedAndResumedGivesTheSameLosses) {
  const Folder folder;
  const std::string more = std::string(kEvery) + " checkpoint_freq: 100";
  const std::vector<double> whole = losses(run_job(small_job(folder, {.more = more}), silent()));
  for (const int stop : {1, 7, 19}) {
    const Folder own;
    const Job job = small_job(own, {.more = more});
    JobOptions options = silent();
    int steps = 0;
    options.stop = [&] { return ++steps == stop; };
    const JobResult first = run_job(job, options);
    EXPECT_FALSE(first.ended);
    EXPECT_EQ(first.step, stop);
    EXPECT_NE(
        content((own / "work" / "job.log").string())
            .find(fmt::format("stopped at step {}; saved {}; -resume continues from there", stop, first.checkpoint)),
        std::string::npos);
    JobOptions again = silent();
    again.resume = true;
    const JobResult second = run_job(job, again);
    std::vector<double> both = losses(first);
    for (const double loss : losses(second)) both.push_back(loss);
    EXPECT_EQ(both, whole) << "stopped at " << stop;
    const std::string csv = content((own / "work" / "results.csv").string());
    EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 21);
  }
}

TEST(Job, ContinuesWhateverHappenedToItsResults) {
  const Folder folder;
  const Job job = small_job(folder, {.more = std::string(kEvery) + " checkpoint_freq: 20"});
  const std::string checkpoint = run_job(job, silent()).checkpoint;
  JobOptions test = silent();
  test.test = true;
  const Job alone = job.with(fmt::format("checkpoint_path: \"{}\"", checkpoint));
  for (const std::string name : {"results.csv", "results.json"}) {
    const std::string path = (folder / "work" / name).string(), bytes = content(path);
    for (std::uint32_t seed = 0; seed < 60; ++seed) {
      std::ofstream(path, std::ios::binary) << damage(bytes, seed);
      EXPECT_EQ(run_job(alone, test).reports.size(), 1U) << name << " " << seed;
    }
    std::ofstream(path, std::ios::binary) << "0,tr\xff,1,1,,,1\n";
    EXPECT_EQ(run_job(alone, test).reports.size(), 1U) << name;
    std::ofstream(path, std::ios::binary) << bytes;
  }
}

TEST(Job, CheckpointsAreSingasFilesAndStartAnotherJob) {
  const Folder folder;
  const JobResult result = run_job(small_job(folder, {.more = "checkpoint_freq: 10 test_freq: 20"}), silent());
  const std::string path = (folder / "work" / "checkpoint" / "step20-worker0").string();
  EXPECT_EQ(result.checkpoint, path);
  EXPECT_TRUE(std::filesystem::exists(folder / "work" / "checkpoint" / "step10-worker0"));
  job::BlobProtos first;  // the initial parameters are saved, too
  ASSERT_TRUE(first.ParseFromString(content((folder / "work" / "checkpoint" / "step0-worker0").string())));
  EXPECT_EQ(first.version(0), 0);
  job::BlobProtos blobs;
  ASSERT_TRUE(blobs.ParseFromString(content(path)));
  const std::vector<std::string> names(blobs.name().begin(), blobs.name().end());
  EXPECT_EQ(names, (std::vector<std::string>{"0#w1", "0#b1", "0#w2", "0#b2"}));
  EXPECT_EQ(blobs.blob(0).shape(0), 8);
  EXPECT_EQ(blobs.blob(0).shape(1), 4);
  EXPECT_EQ(blobs.version(0), 20);
  EXPECT_NE(blobs.blob(0).data(0), first.blob(0).data(0));
  // A test alone, also with bare parameter names, gives the same loss.
  const double tested = metric(result.reports.back(), "loss");
  for (const bool bare : {false, true}) {
    if (bare) {
      for (int i = 0; i < blobs.name_size(); ++i) blobs.set_name(i, blobs.name(i).substr(2));
    }
    const std::string other = (folder / "other").string();
    std::ofstream(other, std::ios::binary) << blobs.SerializeAsString();
    JobOptions options = silent();
    options.test = true;
    const JobResult alone =
        run_job(small_job(folder, {.more = fmt::format("checkpoint_path: \"{}\"", other)}), options);
    ASSERT_EQ(alone.reports.size(), 1U);
    EXPECT_EQ(alone.reports[0].phase, "test");
    EXPECT_EQ(alone.reports[0].step, 20);
    // The result of the test follows those of the training.
    const std::string csv = content((folder / "work" / "results.csv").string());
    EXPECT_NE(csv.find("\n0,test,"), std::string::npos) << csv;
    EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), bare ? 5 : 4) << csv;
    EXPECT_NEAR(metric(alone.reports[0], "loss"), tested, 1e-6);
  }
}

TEST(Job, DamagedCheckpointsAreAnErrorThatNamesTheFile) {
  const Folder folder;
  (void)run_job(small_job(folder, {.more = "checkpoint_freq: 20"}), silent());
  const std::string bytes = content((folder / "work" / "checkpoint" / "step20-worker0").string());
  const std::string damaged = (folder / "damaged").string();
  const Job job = small_job(folder, {});
  int refused = 0;
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    std::ofstream(damaged, std::ios::binary) << damage(bytes, seed);
    try {
      (void)net_of_job(job, damaged);
    } catch (const Error& error) {
      ++refused;
      EXPECT_NE(std::string(error.what()).find("damaged"), std::string::npos) << error.what();
    }
  }
  EXPECT_GT(refused, 20);
}

TEST(Job, ConvolutionsAndWhatFollowsThemTravelInSingasOrder) {
  const Folder folder;
  const std::string csv = (folder / "images.csv").string();
  std::ofstream file(csv);
  for (int i = 0; i < 40; ++i) {
    file << i % 2;
    for (int k = 0; k < 2 * 4 * 5; ++k) file << "," << std::sin(i * 3.1 + k);
    file << "\n";
  }
  file.close();
  const auto text = [&](const std::string& more) {
    return fmt::format(R"(name: "c" train_steps: 5 {} train_one_batch {{ alg: kBP }}
updater {{ type: kSGD learning_rate {{ type: kFixed base_lr: 0.1 }} }}
neuralnet {{
  layer {{ name: "data" type: kCSVInput store_conf {{ path: "{}" batchsize: 20 shape: 2 shape: 4 shape: 5 }} }}
  layer {{ name: "conv" type: kConvolution srclayers: "data" convolution_conf {{ num_filters: 3 kernel: 3 pad: 1 }} }}
  layer {{ name: "ip" type: kInnerProduct srclayers: "conv" innerproduct_conf {{ num_output: 2 }} }}
  layer {{ name: "loss" type: kSoftmaxLoss srclayers: "ip" srclayers: "data" }}
}}
cluster {{ workspace: "{}" }})",
                       more, csv, (folder / "work").string());
  };
  const Job job = Job::from_text(text("checkpoint_freq: 5"), "c.conf");
  const JobResult result = run_job(job, silent());
  const nn::Net net = net_of_job(job, result.checkpoint);
  job::BlobProtos blobs;
  ASSERT_TRUE(blobs.ParseFromString(content(result.checkpoint)));
  // Filters: (f, y, x, c) here is (f, c * 9 + y * 3 + x) there. Dense: (o, y, x, c) here is (o, c * 20 + y * 5 + x)
  // there.
  const auto find = [&](const std::string& name) -> const job::BlobProto& {
    for (int i = 0; i < blobs.name_size(); ++i) {
      if (blobs.name(i) == name) return blobs.blob(i);
    }
    throw std::runtime_error("no " + name);
  };
  const job::BlobProto& filters = find("0#conv/weight");
  const Tensor ours = net.parameters()[0].value;
  ASSERT_EQ(ours.shape(), (Shape{3, 3, 3, 2}));
  EXPECT_EQ(filters.shape(1), 18);
  for (int f = 0; f < 3; ++f)
    for (int y = 0; y < 3; ++y)
      for (int x = 0; x < 3; ++x)
        for (int c = 0; c < 2; ++c) {
          EXPECT_EQ(ours.at(((f * 3 + y) * 3 + x) * 2 + c), filters.data(f * 18 + c * 9 + y * 3 + x));
        }
  const job::BlobProto& dense = find("0#ip/weight");
  const Tensor weight = net.parameters()[2].value;
  for (int o = 0; o < 2; ++o)
    for (int y = 0; y < 4; ++y)
      for (int x = 0; x < 5; ++x)
        for (int c = 0; c < 3; ++c) {
          EXPECT_EQ(weight.at(o * 60 + (y * 5 + x) * 3 + c), dense.data(o * 60 + c * 20 + y * 5 + x));
        }
}

TEST(JobClusters, SynchronousOnesGiveTheLossesOfOneWorker) {
  const Folder folder;
  const std::vector<double> one = losses(run_job(small_job(folder, {.more = kEvery}), silent()));
  ASSERT_EQ(one.size(), 20U);
  const std::vector<SmallJob> clusters = {
      {.more = kEvery, .cluster = "nworkers_per_group: 2"},
      {.more = kEvery, .cluster = "nworkers_per_group: 4 nservers_per_group: 4"},
      {.more = kEvery, .cluster = "nworkers_per_group: 3 nservers_per_group: 2 server_worker_separate: true"},
      {.more = kEvery,  // fields about communication between SINGA's processes are accepted
       .cluster = "nworkers_per_group: 2 nworkers_per_procs: 2 nservers_per_procs: 2 share_memory: false "
                  "start_port: 7000 poll_time: 5"},
      {.more = kEvery, .cluster = "nworkers_per_group: 2", .net = "partition_dim: 1"},
      {.more = kEvery, .cluster = "nworkers_per_group: 2", .hidden = "partition_dim: 1"},
  };
  for (const SmallJob& cluster : clusters) {
    const Folder own;
    SCOPED_TRACE(cluster.cluster + " " + cluster.net + cluster.hidden);
    expect_near(losses(run_job(small_job(own, cluster), silent())), one, 1e-5);
  }
}

TEST(JobClusters, SizesOfAGroupsWorkersAreSharesOfItsBatch) {
  const Folder folder;
  const std::vector<double> one = losses(run_job(small_job(folder, {.more = kEvery}), silent()));
  std::string text = small_text(folder, {.more = kEvery, .cluster = "nworkers_per_group: 2"});
  text.replace(text.find("batchsize: 24"), 13, "batchsize: 16 batchsize: 8");
  expect_near(losses(run_job(Job::from_text(text), silent())), one, 1e-5);
  text.replace(text.find("nworkers_per_group: 2"), 21, "nworkers_per_group: 3");
  try {
    (void)run_job(Job::from_text(text), silent());
    ADD_FAILURE() << "two sizes for three workers";
  } catch (const Error& error) {
    const std::string expected = "expected one number, or one for each of the 3 workers of a group; received 2";
    EXPECT_NE(std::string(error.what()).find("store_conf.batchsize: " + expected), std::string::npos) << error.what();
  }
}

TEST(JobClusters, ServersMayBeRanksOfTheirOwn) {
  const std::string more = "disp_freq: 1 test_freq: 10 checkpoint_freq: 10";
  const Folder folder;
  const JobResult one = run_job(small_job(folder, {.more = more}), silent());
  const auto run = [](const Job& job, int ranks, const JobOptions& options = silent()) {
    JobResult result;
    run_cluster(
        ranks,
        [&](Session& session) {
          JobResult mine = run_job(job, options, &session);
          if (session.rank() == 0) result = std::move(mine);
          EXPECT_NE(session.worker_id() < 0, session.server_id() < 0) << "each does one of the two";
          EXPECT_EQ(session.workers() + session.servers(), session.size());
        },
        session_of_job(job));
    return result;
  };
  const std::string apart = " server_worker_separate: true";
  {  // Sandblaster: four ranks work, two serve.
    const Folder own;
    const Job job = small_job(own, {.more = more, .cluster = "nworkers_per_group: 4 nservers_per_group: 2" + apart});
    EXPECT_EQ(session_of_job(job).role, "4+2");
    EXPECT_NE(explain_job(job, 6).find("Sandblaster, 4 ranks, and 2 that only serve"), std::string::npos);
    const JobResult result = run(job, 6);
    expect_near(losses(result), losses(one), 1e-5);
    EXPECT_NEAR(metric(result.reports.back(), "loss"), metric(one.reports.back(), "loss"), 1e-5);
    JobOptions test = silent();  // and a test alone, of the saved parameters
    test.test = true;
    const Job again = job.with(fmt::format("checkpoint_path: \"{}\"", result.checkpoint));
    EXPECT_NEAR(metric(run(again, 6, test).reports[0], "loss"), metric(one.reports.back(), "loss"), 1e-5);
  }
  {  // A stopped run is resumed.
    const Folder own;
    const Job job = small_job(own, {.more = more, .cluster = "nworkers_per_group: 1 nservers_per_group: 1" + apart});
    JobOptions options = silent();
    std::atomic<int> steps = 0;
    options.stop = [&] { return ++steps >= 14; };  // on two ranks, seven steps each
    const JobResult first = run(job, 2, options);
    EXPECT_FALSE(first.ended);
    JobOptions resume = silent();
    resume.resume = true;
    std::vector<double> both = losses(first);
    for (const double loss : losses(run(job, 2, resume))) both.push_back(loss);
    expect_near(both, losses(one), 1e-5);
  }
  {  // Downpour.
    const Folder own;
    SmallJob asked{.steps = 80, .more = "test_freq: 80", .cluster = "nworker_groups: 2" + apart};
    asked.updater = "type: kSGD learning_rate { type: kFixed base_lr: 0.1 }";
    EXPECT_LT(metric(run(small_job(own, asked), 3).reports.back(), "loss"), 0.5);
  }
  const Folder own;
  try {
    (void)run(small_job(own, {.cluster = "nworker_groups: 2 nserver_groups: 2" + apart}), 4);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_NE(
        std::string(error.what()).find("nothing to serve; expected as many ranks as there are workers, 2; received 4"),
        std::string::npos)
        << error.what();
  }
}

TEST(JobClusters, EveryModeLearnsTheSameTask) {
  const std::vector<std::string> clusters = {
      "nworkers_per_group: 2",
      "nworkers_per_group: 2 server_worker_separate: true",
      "nworker_groups: 2",
      "nworker_groups: 2 nworkers_per_group: 2",
      "nworker_groups: 2 nserver_groups: 2 sync_freq: 3",
      "nworker_groups: 2 nserver_groups: 2 nworkers_per_group: 2 sync_freq: 2",
  };
  for (const std::string& cluster : clusters) {
    const Folder folder;
    SCOPED_TRACE(cluster);
    SmallJob job{.steps = 80, .more = "test_freq: 80 checkpoint_freq: 80", .cluster = cluster};
    job.updater = "type: kSGD learning_rate { type: kFixed base_lr: 0.1 }";
    const JobResult result = run_job(small_job(folder, job), silent());
    EXPECT_LT(metric(result.reports.back(), "loss"), 0.5);
    // The saved parameters are those that were tested.
    JobOptions test = silent();
    test.test = true;
    SmallJob alone = job;
    alone.cluster.clear();
    alone.more = fmt::format("checkpoint_path: \"{}\"", result.checkpoint);
    EXPECT_NEAR(metric(run_job(small_job(folder, alone), test).reports[0], "loss"),
                metric(result.reports.back(), "loss"), 1e-4);
  }
}

TEST(JobClusters, ThatCannotBeAreRefused) {
  const Folder folder;
  const auto said = [&](const SmallJob& job) -> std::string {
    try {
      (void)run_job(small_job(folder, job), silent());
      return "nothing";
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_NE(
      said({.batch = 25, .cluster = "nworkers_per_group: 2", .net = "partition_dim: 1"})
          .find("layer \"data\", store_conf.batchsize: expected a multiple of 2, the workers, which split layers"),
      std::string::npos);
  EXPECT_NE(said({.more = "test_freq: 5", .cluster = "nworkers_per_group: 3", .net = "partition_dim: 1"})
                .find("layer \"data\", store_conf.batchsize: expected a multiple of 3, the workers, which split layers "
                      "(partition_dim: 1); received 40"),
            std::string::npos);
  EXPECT_NE(
      said({.cluster = "nworker_groups: 4 nserver_groups: 2"}).find("cluster.nserver_groups: expected 1, or as many"),
      std::string::npos);
  EXPECT_NE(
      said({.cluster = "nworker_groups: 2", .net = "partition_dim: 1"}).find("is for one worker group; there are 2"),
      std::string::npos);
}

TEST(JobClusters, AreExplained) {
  const Folder folder;
  const std::string text =
      explain_job(small_job(folder, {.cluster = "nworkers_per_group: 2", .hidden = "partition_dim: 1"}));
  EXPECT_NE(text.find("cluster: AllReduce, 2 ranks"), std::string::npos) << text;
  EXPECT_NE(text.find("a worker takes 12 of the 24 samples"), std::string::npos) << text;
  EXPECT_NE(text.find("4 of 8 outputs"), std::string::npos) << text;
  const std::string hogwild =
      explain_job(small_job(folder, {.cluster = "nworker_groups: 2 nserver_groups: 2 sync_freq: 5"}));
  EXPECT_NE(hogwild.find("distributed Hogwild, 2 ranks in 2 groups of 1"), std::string::npos) << hogwild;
  EXPECT_NE(hogwild.find("every 5 steps"), std::string::npos) << hogwild;
  // 67 parameters, or 268 bytes: 8 x 4 and 8, 3 x 8 and 3.
  const auto explained = [&](const std::string& cluster) {
    return explain_job(small_job(folder, {.cluster = cluster}));
  };
  const std::vector<std::pair<std::string, std::string>> expected = {
      {"nworkers_per_group: 1", "  0 bytes a step are exchanged with each rank, 268 bytes of parameters held"},
      {"nworkers_per_group: 2", "  268 bytes a step are exchanged with each rank, 268 bytes of parameters held"},
      {"nworkers_per_group: 2 server_worker_separate: true",
       "  536 bytes a step are exchanged with each worker: 268 bytes of gradients, and 268 bytes of parameters back; "
       "268 bytes of parameters held"},
      {"nworker_groups: 2",
       "  536 bytes a step are exchanged with each group: 268 bytes of gradients, and 268 bytes of parameters back; "
       "268"},
      {"nworker_groups: 2 nserver_groups: 2 sync_freq: 4 nworkers_per_group: 2",
       "  134 bytes a step are exchanged with each group: every 4 steps 268 bytes of changes, and 268 bytes of "
       "parameters "
       "back; inside a group 536 bytes with each worker but the first; 268 bytes of parameters held"},
      {"nworker_groups: 2 nworkers_per_group: 3", "  group 0: ranks 0-2\n  group 1: ranks 3-5\n"},
      {"nworker_groups: 12", "  group 6: rank 6\n  ...\n  group 11: rank 11\n"},
  };
  for (const auto& [cluster, line] : expected) {
    EXPECT_NE(explained(cluster).find(line), std::string::npos) << line << "\n" << explained(cluster);
  }
}

TEST(Job, TravelsAsSafetensors) {
  const Folder folder;
  const Job job = small_job(folder, {.more = "checkpoint_freq: 20"});
  const std::string checkpoint = run_job(job, silent()).checkpoint;
  for (const std::string layout : {"singa", "torch", "pleiad"}) {
    const std::string file = (folder / (layout + ".safetensors")).string(), back = (folder / layout).string();
    export_job_checkpoint(job, checkpoint, file, layout);
    import_job_checkpoint(job, file, back, 20);
    EXPECT_EQ(content(back), content(checkpoint)) << layout;
  }
  export_job_checkpoint(job, (folder / "work" / "checkpoint" / "state" / "step-00000020").string(),
                        (folder / "own").string());
  EXPECT_EQ(content((folder / "own").string()), content((folder / "singa.safetensors").string()));
  // The names in the file decide, not the program that wrote it or the name of the file.
  const std::string saved = (folder / "anew.bin").string(), back = (folder / "anew").string();
  {
    const Safetensors file{folder / "singa.safetensors"};
    std::vector<ArrayToWrite> arrays;
    for (const ArrayEntry& array : file.arrays()) {
      arrays.push_back({.name = array.name, .type = array.type, .shape = array.shape, .bytes = array.bytes});
    }
    write_safetensors(saved, arrays, {{"format", "pt"}});
  }
  import_job_checkpoint(job, saved, back, 20);
  EXPECT_EQ(content(back), content(checkpoint));
  // A file of another net lacks parameters that this net needs.
  std::string text = small_text(folder, {});
  text.replace(text.find("name: \"w2\""), 10, "name: \"w9\"");
  try {
    import_job_checkpoint(Job::from_text(text), (folder / "singa.safetensors").string(), (folder / "no").string());
    FAIL();
  } catch (const FileError& error) {
    EXPECT_NE(std::string(error.what()).find("singa.safetensors: 1 of the net's 4 parameters is missing: \"w9\""),
              std::string::npos)
        << error.what();
  }
  int refused = 0;
  const std::string bytes = content((folder / "singa.safetensors").string());
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    const std::string damaged = (folder / "damaged.safetensors").string();
    std::ofstream(damaged, std::ios::binary) << damage(bytes, seed);
    try {
      import_job_checkpoint(job, damaged, (folder / "no").string());
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 10);
}

TEST(JobOwn, AUserRuleThatThrowsEndsTheRunWithItsMessage) {
  register_rule("kThrowing", {}, [](const auto&) { throw std::runtime_error("no more"); });
  register_job_updater("kThrowing", {.rule = "kThrowing"});
  for (const std::string cluster : {"", "nworkers_per_group: 2", "nworker_groups: 2 nserver_groups: 2"}) {
    const Folder folder;
    const Job job =
        small_job(folder, {.cluster = cluster, .updater = "user_type: \"kThrowing\" learning_rate { type: kFixed }"});
    EXPECT_THROW((void)run_job(job, silent()), Error) << cluster;
  }
}

TEST(JobOwn, ARuleThatThrowsOnOneRankEndsAllRanksWithTheSameMessage) {
  static std::atomic<int> left;
  register_rule("kOnce", {}, [](const auto&) {
    if (--left == 0) throw std::runtime_error("just here");
  });
  register_job_updater("kOnce", {.rule = "kOnce"});
  const Folder folder;
  const Job job = small_job(
      folder, {.cluster = "nworkers_per_group: 3", .updater = "user_type: \"kOnce\" learning_rate { type: kFixed }"});
  for (const int call : {1, 17}) {  // of the first step, of the second
    left = call;
    std::array<std::string, 3> told;
    run_cluster(3, [&](Session& session) {
      try {
        (void)run_job(job, silent(), &session);
      } catch (const RuleError& error) {
        told[static_cast<std::size_t>(session.rank())] = error.what();
      }
    });
    EXPECT_NE(told[0].find("rule \"kOnce\": just here"), std::string::npos) << told[0];
    EXPECT_NE(told[0].find(call == 1 ? "step 0: on rank " : "step 1: on rank "), std::string::npos) << told[0];
    EXPECT_EQ(told[1], told[0]);
    EXPECT_EQ(told[2], told[0]);
  }
}

TEST(JobOwn, LayersAndUpdatersAreFoundByTheirNames) {
  register_job_layer("kTwice", [](const std::string&) { return nn::make_layer("activation", {{"function", "tanh"}}); });
  register_job_updater("kSlow", {.rule = "sgd"});
  const Folder folder;
  (void)points(folder);
  std::string text = small_text(folder, {.more = kEvery});
  text.replace(text.find("type: kSTanh"), 12, "user_type: \"kTwice\"");
  text.replace(text.find("type: kSGD momentum: 0.9"), 24, "user_type: \"kSlow\"");
  const std::vector<double> all = losses(run_job(Job::from_text(text), silent()));
  EXPECT_LT(all.back(), all.front());
  text.replace(text.find("kTwice"), 6, "kTwise");
  try {
    (void)run_job(Job::from_text(text), silent());
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean \"kTwice\"?"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace pleiad::test

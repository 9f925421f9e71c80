// The files that a run accepts as its own and those that it refuses: checkpoints to test and to resume, workspaces,
// jobs that differ.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>

#include "job/job.pb.h"
#include "job/results.h"
#include "job/workspace.h"
#include "pleiad/error.h"
#include "tests/job/small_job.h"

namespace pleiad::test {
namespace {

namespace fs = std::filesystem;

std::string bytes_in(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string told(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

JobOptions testing_alone(bool resume = false) {
  JobOptions options = silent();
  options.test = true;
  options.resume = resume;
  return options;
}

void expect_words(const std::string& text, const std::vector<std::string>& words) {
  for (const std::string& word : words) EXPECT_NE(text.find(word), std::string::npos) << word << " in: " << text;
}

TEST(JobResults, ATestNeedsEveryParameterFromItsCheckpoint) {
  const Folder folder;
  const Job job = small_job(folder, {});
  const auto tested = [&](const std::string& more, bool resume = false) {
    return told([&] { (void)run_job(small_job(folder, {.more = more}), testing_alone(resume)); });
  };
  const auto with_path = [](const fs::path& path) { return fmt::format("checkpoint_path: \"{}\"", path.string()); };
  expect_words(tested(""), {"small.conf", "checkpoint_path", "received neither"});
  expect_words(tested(with_path(folder / "gone")), {"gone", "no such checkpoint"});
  std::ofstream(folder / "empty").close();
  expect_words(tested(with_path(folder / "empty")), {"empty", "none of the net's parameters", "w1, b1, w2, b2"});
  expect_words(tested("", true), {"no checkpoint of a run to test", "state"});

  const JobResult result = run_job(job, silent());
  ASSERT_FALSE(result.checkpoint.empty());
  job::BlobProtos blobs;
  ASSERT_TRUE(blobs.ParseFromString(bytes_in(result.checkpoint)));
  job::BlobProtos foreign = blobs;
  for (int i = 0; i < foreign.name_size(); ++i) foreign.set_name(i, "0#other" + std::to_string(i));
  std::ofstream(folder / "foreign", std::ios::binary) << foreign.SerializeAsString();
  expect_words(tested(with_path(folder / "foreign")), {"foreign", "none of the net's parameters", "other0"});
  job::BlobProtos part = blobs;
  part.mutable_name()->DeleteSubrange(2, 2);
  part.mutable_blob()->DeleteSubrange(2, 2);
  std::ofstream(folder / "part", std::ios::binary) << part.SerializeAsString();
  expect_words(tested(with_path(folder / "part")),
               {"part", "2 of the net's 4 parameters are missing", "\"w2\"", "\"b2\""});
  EXPECT_EQ(tested(with_path(result.checkpoint)), "nothing");
  EXPECT_EQ(tested("", true), "nothing");  // the checkpoint of the workspace
}

TEST(JobResults, TrainingNeedsANumberOfSteps) {
  const Folder folder;
  std::string text = small_text(folder, {});
  (void)points(folder);
  text.replace(text.find("train_steps: 20"), 15, "");
  const Job job = Job::from_text(text, "small.conf");
  expect_words(told([&] { (void)run_job(job, silent()); }), {"small.conf", "train_steps", "received none"});
  const JobResult result = run_job(job.with("train_steps: 2"), silent());
  const Job test = job.with(fmt::format("checkpoint_path: \"{}\"", result.checkpoint));
  EXPECT_EQ(run_job(test, testing_alone()).reports.size(), 1U);  // a run without steps
}

constexpr const char* kDiverging = "type: kSGD learning_rate { type: kFixed base_lr: 1e30 }";

TEST(JobResults, ALossThatIsNotFiniteEndsTheRunUnlessTheJobAllowsIt) {
  const Folder folder;
  expect_words(told([&] { (void)run_job(small_job(folder, {.updater = kDiverging}), silent()); }),
               {"step ", "the loss is ", "first layer", "\"hidden\""});
  EXPECT_TRUE(bytes_in(folder / "work" / "run.json").find("failed") != std::string::npos);
  testing::internal::CaptureStderr();
  const JobResult result = run_job(small_job(folder, {.more = "check_finite: false", .updater = kDiverging}), silent());
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_EQ(result.step, 20);
  expect_words(printed, {"the loss is", "\"hidden\"", "training continues"});
  EXPECT_EQ(printed.find("the loss is"), printed.rfind("the loss is")) << "told once: " << printed;
}

TEST(JobWorkspace, TheModelIsSavedAtTheEndWithoutAFrequency) {
  const Folder folder;
  const JobResult result = run_job(small_job(folder, {.steps = 7}), silent());
  EXPECT_EQ(result.checkpoint, (folder / "work" / "checkpoint" / "step7-worker0").string());
  EXPECT_TRUE(fs::exists(result.checkpoint));
  expect_words(bytes_in(folder / "work" / "run.json"), {"\"job\": \"small\"", "\"status\": \"ended\"", "\"step\": 7"});
}

/// Stops after this many steps.
JobOptions stopping_after(int stop, int& steps) {
  JobOptions options = silent();
  options.stop = [stop, &steps] { return ++steps == stop; };
  return options;
}

TEST(JobWorkspace, AStoppedRunIsSavedOnSeveralWorkersToo) {
  const Folder folder;
  const Job job = small_job(folder, {.more = "disp_freq: 1", .cluster = "nworkers_per_group: 2"});
  std::atomic<int> count = 0;
  JobOptions options = silent();
  options.stop = [&] { return ++count == 9; };
  const JobResult first = run_job(job, options);
  EXPECT_FALSE(first.ended);
  EXPECT_TRUE(fs::exists(first.checkpoint)) << first.checkpoint;
  JobOptions again = silent();
  again.resume = true;
  std::vector<double> both = losses(first);
  for (const double loss : losses(run_job(job, again))) both.push_back(loss);
  const Folder other;
  EXPECT_EQ(both,
            losses(run_job(small_job(other, {.more = "disp_freq: 1", .cluster = "nworkers_per_group: 2"}), silent())));
}

TEST(JobWorkspace, ResumeContinuesTheLastRunAndNotALongerOneBefore) {
  const Folder folder;
  const std::string more = "disp_freq: 1";
  (void)run_job(small_job(folder, {.steps = 15, .more = more}), silent());  // leaves the state of step 15
  int steps = 0;
  const Job job = small_job(folder, {.steps = 20, .more = more});
  const JobResult first = run_job(job, stopping_after(6, steps));
  EXPECT_EQ(first.step, 6);
  EXPECT_TRUE(fs::exists(folder / "work" / "checkpoint" / "step15-worker0"));
  JobOptions again = silent();
  again.resume = true;
  const JobResult second = run_job(job, again);
  EXPECT_EQ(losses(second).size(), 14U);  // from step 6 on
  std::vector<double> both = losses(first);
  for (const double loss : losses(second)) both.push_back(loss);
  const Folder other;
  EXPECT_EQ(both, losses(run_job(small_job(other, {.more = more}), silent())));
}

TEST(JobWorkspace, ResumeRefusesAnotherJobsWorkspace) {
  const Folder folder;
  (void)run_job(small_job(folder, {}), silent());
  std::string text = small_text(folder, {});
  text.replace(text.find("\"small\""), 7, "\"other\"");
  JobOptions again = silent();
  again.resume = true;
  expect_words(told([&] { (void)run_job(Job::from_text(text), again); }), {"-resume", "\"small\"", "\"other\""});
  again.test = true;
  expect_words(told([&] { (void)run_job(Job::from_text(text), again); }), {"-resume", "\"small\"", "\"other\""});
}

TEST(JobWorkspace, ASecondRunIsRefusedWhileTheFirstIsAlive) {
  const Folder folder;
  const Job job = small_job(folder, {});
  JobOptions options = silent();
  std::string words;
  options.stop = [&] {
    words = told([&] { (void)run_job(job, silent()); });
    return true;
  };
  (void)run_job(job, options);
  expect_words(words, {"work", "\"small\"", "is using it", std::to_string(getpid())});
  EXPECT_EQ(told([&] { (void)run_job(job, silent()); }), "nothing");
}

TEST(JobWorkspace, ADeadProcessHoldsNoLockAndIsReported) {
  const Folder folder;
  const std::string work = (folder / "work").string();
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    job::Workspace workspace(work, "small");
    (void)workspace.begin();
    workspace.saved(3);
    const bool written = write(ready[1], "x", 1) == 1;
    for (; written;) pause();
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  expect_words(told([&] { const job::Workspace second(work, "small"); }), {"is using it", std::to_string(child)});
  kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  job::Workspace next(work, "small");
  expect_words(next.begin(), {"\"small\"", "was killed or crashed", "step 3", "starts at step 0"});
  next.end("ended", 5);
  close(ready[0]);
  close(ready[1]);
}

TEST(JobWorkspace, AWorkspaceOfTheOriginalIsResumedFromItsParameters) {
  const Folder folder;
  const Job job = small_job(folder, {.steps = 12, .more = "disp_freq: 1"});
  (void)run_job(job, silent());
  const fs::path work = folder / "work";
  fs::copy_file(work / "checkpoint" / "step12-worker0", folder / "kept");
  fs::remove_all(work);
  fs::create_directories(work / "checkpoint");
  fs::copy_file(folder / "kept", work / "checkpoint" / "step12-worker0");
  JobOptions again = silent();
  again.resume = true;
  const Job longer = small_job(folder, {.steps = 15, .more = "disp_freq: 1"});
  const JobResult result = run_job(longer, again);
  ASSERT_EQ(result.reports.size(), 3U);
  EXPECT_EQ(result.reports[0].step, 12);
  EXPECT_EQ(result.step, 15);
  const Folder other;
  const JobResult fresh = run_job(small_job(other, {.steps = 1, .more = "disp_freq: 1"}), silent());
  EXPECT_LT(losses(result)[0], losses(fresh)[0]);  // of trained parameters
  expect_words(bytes_in(work / "job.log"), {"resumed at step 12", "step12-worker0", "history"});
}

TEST(JobClusters, ABatchThatWorkersDoNotDivideGivesTheSameLosses) {
  const std::string more = "disp_freq: 1 test_freq: 10 test_steps: 2";
  const Folder folder;
  const JobResult one = run_job(small_job(folder, {.batch = 25, .more = more}), silent());
  for (const std::string cluster : {"nworkers_per_group: 2", "nworkers_per_group: 3", "nworkers_per_group: 8",
                                    "nworkers_per_group: 3 nservers_per_group: 2 server_worker_separate: true"}) {
    const Folder own;
    SCOPED_TRACE(cluster);
    const JobResult many = run_job(small_job(own, {.batch = 25, .more = more, .cluster = cluster}), silent());
    ASSERT_EQ(many.reports.size(), one.reports.size());
    for (std::size_t i = 0; i < one.reports.size(); ++i) {
      const double expected = metric(one.reports[i], "loss");
      EXPECT_NEAR(metric(many.reports[i], "loss"), expected, 1e-5 * std::abs(expected)) << i;
      EXPECT_NEAR(metric(many.reports[i], "acc"), metric(one.reports[i], "acc"), 1e-6) << i;
    }
  }
  // Split layers need equal parts, and each rank needs a sample.
  const auto said = [&](const SmallJob& job) {
    const Folder own;
    return told([&] { (void)run_job(small_job(own, job), silent()); });
  };
  expect_words(said({.batch = 25, .cluster = "nworkers_per_group: 2", .net = "partition_dim: 1"}),
               {"store_conf.batchsize", "expected a multiple of 2", "partition_dim", "received 25"});
  expect_words(said({.batch = 2, .cluster = "nworkers_per_group: 3"}),
               {"store_conf.batchsize", "at least one sample for each of the 3 workers", "received 2"});
}

TEST(JobClusters, RanksWithDifferentJobsAllNameTheDifference) {
  const Folder folder;
  struct Case {
    SmallJob other;
    std::vector<std::string> words;
  };
  const std::vector<Case> cases = {
      {{.steps = 30}, {"train_steps is 20 on rank 0 and 30 on rank 1"}},
      {{.updater = "type: kSGD momentum: 0.9 weight_decay: 0.001 learning_rate { type: kFixed base_lr: 0.2 }"},
       {"updater.learning_rate.base_lr is 0.1 on rank 0 and 0.2 on rank 1"}},
      {{.more = "test_freq: 5"}, {"test_freq is missing on rank 0 and 5 on rank 1"}},
      {{.hidden = "partition_dim: 0"}, {"neuralnet.layer[hidden].partition_dim", "rank 1"}},
  };
  for (const Case& each : cases) {
    std::array<std::string, 3> said;
    run_cluster(3, [&](Session& session) {
      const Job job = small_job(folder, session.rank() == 1 ? each.other : SmallJob{});
      said[static_cast<std::size_t>(session.rank())] = told([&] { (void)run_job(job, silent(), &session); });
      session.shutdown();
    });
    for (const std::string& words : said) {
      EXPECT_EQ(words, said[0]);
      expect_words(words, each.words);
    }
  }
}

TEST(JobProgress, ShowsStepMetricsRateAndTimeLeft) {
  const JobReport latest{
      .step = 60, .phase = "train", .metrics = {{"loss", 2.302}, {"acc", 0.109}}, .samples_per_second = 5400};
  EXPECT_EQ(job::progress_line("mlp", latest, 1000, 12.2),
            "mlp: step 60 of 1000, loss 2.302, acc 0.109, 5,400 samples/s, 12 s left");
  EXPECT_NE(job::progress_line("mlp", latest, 1000, 125).find(", 2:05 min left"), std::string::npos);
  EXPECT_NE(job::progress_line("mlp", latest, 1000, 7300).find(", 2:01 h left"), std::string::npos);
}

}  // namespace
}  // namespace pleiad::test

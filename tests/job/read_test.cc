// Errors in a job's text name the file, line, layer and field.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "pleiad/error.h"
#include "tests/job/small_job.h"

namespace pleiad::test {
namespace {

/// Returns the error of a job in whose text the first `from` is replaced by `to`.
std::string said(const std::string& from, const std::string& to, const SmallJob& job = {}) {
  const Folder folder;
  (void)points(folder);
  std::string text = small_text(folder, job);
  const std::size_t at = text.find(from);
  if (at == std::string::npos) return "no \"" + from + "\" in the job";
  text.replace(at, from.size(), to);
  try {
    (void)run_job(Job::from_text(text, "small.conf"), silent());
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

TEST(JobMistakes, AnUnknownFieldGivesItsLineAndTheNearest) {
  const std::string words = said("srclayers: \"hidden\"", "srclayer: \"hidden\"");
  EXPECT_NE(words.find("small.conf:23: LayerProto: unknown field \"srclayer\""), std::string::npos) << words;
  EXPECT_NE(words.find("did you mean \"srclayers\"?"), std::string::npos) << words;
}

TEST(JobMistakes, ABrokenCharacterIsNamed) {
  EXPECT_EQ(said("alg: kBP", "alg: kBP \xff"), "small.conf:4: the byte 255 is not allowed in a job");
}

TEST(JobMistakes, AnUnknownValueGivesTheNearest) {
  const std::string words = said("kSTanh", "kStanh");
  EXPECT_NE(words.find("small.conf:23: type: unknown value \"kStanh\""), std::string::npos) << words;
  EXPECT_NE(words.find("did you mean \"kSTanh\"?"), std::string::npos) << words;
}

TEST(JobMistakes, AMisspeltValueHasItsOwnLineAndTheValuesOfItsField) {
  // The wrong value is the last word of its line, and belongs to an enumeration whose values resemble those of another
  // one.
  const std::string words = said("alg: kBP }", "alg: kBPP\n}");
  EXPECT_NE(words.find("small.conf:4: alg: unknown value \"kBPP\"; known: kBP, kCD, kBPTT, kUserAlg"),
            std::string::npos)
      << words;
  const std::string init = said("type: kConstant value: 0", "type: kConstnt\n\n value: 0");
  EXPECT_NE(init.find("small.conf:20: type: unknown value \"kConstnt\""), std::string::npos) << init;
  EXPECT_NE(init.find("did you mean \"kConstant\"?"), std::string::npos) << init;
  EXPECT_EQ(init.find("kRecordInput"), std::string::npos) << "values of LayerType: " << init;
  const std::string far = said("include: kTrain", "include: kXyzzy # a comment with { in it\n");
  EXPECT_NE(far.find("small.conf:9: include: unknown value \"kXyzzy\"; known: "), std::string::npos) << far;
}

TEST(JobMistakes, DeepNestingIsAnErrorWithItsLine) {
  constexpr int kLevels = 100'000;
  std::string deep = "layer {\n";
  for (int i = 0; i < kLevels; ++i) deep += "prefetch_conf { sublayers { ";
  for (int i = 0; i < 2 * kLevels + 1; ++i) deep += "}";
  const auto told = [](const std::function<void()>& work) -> std::string {
    try {
      work();
    } catch (const InvalidArgument& error) {
      return error.what();
    }
    return "nothing";
  };
  const std::string text =
      told([&] { (void)Job::from_text("name: \"deep\"\nneuralnet { " + deep + " }", "deep.conf"); });
  EXPECT_NE(text.find("deep.conf:3: "), std::string::npos) << text;
  EXPECT_NE(text.find("too deep"), std::string::npos) << text;
  const Folder folder;
  const Job job = small_job(folder, {});
  const std::string more = told([&] { (void)job.with("neuralnet { " + deep + " }"); });
  EXPECT_NE(more.find("too deep"), std::string::npos) << more;
}

TEST(JobMistakes, AnInvalidFieldOfALayerIsNamedWithLineAndLayer) {
  EXPECT_EQ(said("num_output: 8", "num_output: 0"),
            "small.conf:18: layer \"hidden\", innerproduct_conf.num_output: expected 1 or more; received 0");
  EXPECT_EQ(
      said("type: kGaussian", "type: kUserInit"),
      "small.conf:19: layer \"hidden\", param[0].init.type: expected one of the built-in types, such as kGaussian; "
      "received none");
}

TEST(JobMistakes, AnUnknownSourceLayer) {
  const std::string words = said("srclayers: \"act\"", "srclayers: \"acts\"");
  EXPECT_NE(words.find("small.conf:25: layer \"scores\", srclayers[0]: unknown layer \"acts\""), std::string::npos)
      << words;
  EXPECT_NE(words.find("did you mean \"act\"?"), std::string::npos) << words;
}

TEST(JobMistakes, LayersInACycle) {
  const std::string words =
      said("type: kInnerProduct srclayers: \"data\"", "type: kInnerProduct srclayers: \"scores\"");
  EXPECT_NE(words.find("form a cycle"), std::string::npos) << words;
}

TEST(JobMistakes, AMissingFileIsNamed) {
  const std::string words = said("points.csv\" batchsize: 24", "absent.csv\" batchsize: 24");
  EXPECT_NE(words.find("small.conf:10: layer \"data\", store_conf.path: "), std::string::npos) << words;
  EXPECT_NE(words.find("absent.csv: no such file"), std::string::npos) << words;
}

TEST(JobMistakes, AnUnsupportedDeviceListsTheAvailableOnes) {
  EXPECT_EQ(said("train_steps: 20", "train_steps: 20 gpu: 0 gpu: 1"),
            "small.conf:2: gpu: expected a device for each of 1 worker; received 2: 0, 1");
  const std::string words = said("train_steps: 20", "train_steps: 20 gpu: 7");
  EXPECT_TRUE(words.starts_with("small.conf:2: gpu: expected a CPU; received device 7. ")) << words;
  EXPECT_TRUE(words.ends_with("this build supports only CPUs")) << words;
}

TEST(JobMistakes, AParameterWithoutInitNeedsACheckpoint) {
  const std::string words = said("init { type: kUniform low: -0.5 high: 0.5 }", "");
  EXPECT_NE(words.find("layer \"scores\", param[0]: \"w2\" has no init"), std::string::npos) << words;
}

TEST(JobMistakes, ACheckpointThatIsNotThereIsNamed) {
  const std::string words =
      said("train_steps: 20", "train_steps: 20 checkpoint_path: \"rbm1/checkpoint/step6-worker0\"");
  EXPECT_NE(words.find("rbm1/checkpoint/step6-worker0: no such checkpoint; the job whose workspace is rbm1 writes it"),
            std::string::npos)
      << words;
}

TEST(JobMistakes, AFileThatIsNotThereIsNamed) {
  try {
    (void)Job::from_file("nowhere/job.conf");
    FAIL();
  } catch (const FileError& error) {
    EXPECT_STREQ(error.what(), "nowhere/job.conf: no such file");
  }
  const std::string words = said("train_steps: 20", "train_steps: 20 checkpoint_path: \"nowhere/step6-worker0\"");
  EXPECT_NE(words.find("nowhere/step6-worker0: no such checkpoint"), std::string::npos) << words;
  EXPECT_EQ(words.find("workspace"), std::string::npos) << words;
}

TEST(JobMistakes, AlgorithmsAndUpdatersMustBeNamed) {
  EXPECT_NE(said("alg: kBP", "").find("small.conf:4: train_one_batch.alg: expected kBP, kCD or kBPTT"),
            std::string::npos);
  EXPECT_NE(said("alg: kBP", "alg: kCD").find("kCD needs layers of type kRBMVis and kRBMHid"), std::string::npos);
  EXPECT_NE(said("type: kFixed", "").find("updater.learning_rate: expected a type"), std::string::npos);
}

TEST(JobMistakes, SharingNeedsAnEarlierParameter) {
  const std::string words = said("name: \"w2\"", "name: \"w2\" share_from: \"w3\"");
  EXPECT_NE(words.find("layer \"scores\", param[0].share_from: unknown parameter of an earlier layer \"w3\""),
            std::string::npos)
      << words;
}

TEST(JobFuzz, DamagedTextIsAnErrorOrAJob) {
  const Folder folder;
  (void)points(folder);
  const std::string text = small_text(folder, {});
  int refused = 0;
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    try {
      (void)explain_job(Job::from_text(damage(text, seed), "fuzz.conf"));
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(JobFuzz, DamagedBytesAreAnErrorOrAJob) {
  const Folder folder;
  const std::string bytes = small_job(folder, {}).bytes();
  int refused = 0;
  for (std::uint32_t seed = 0; seed < 400; ++seed) {
    try {
      (void)explain_job(Job::from_bytes(damage(bytes, seed)));
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace pleiad::test

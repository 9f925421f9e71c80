// Files of earlier versions of SINGA: shards of Records, mean files, pairs of data layers.
#include <gtest/gtest.h>

#include <fstream>

#include "data/protobuf_fields.h"
#include "pleiad/error.h"
#include "pleiad/records.h"
#include "tests/job/small_job.h"

namespace pleiad::test {
namespace {

/// Record {type = 1, image = 5}, as in SINGA 0.1 to 0.3.
std::string wrapped(const Record& image, bool with_type) {
  data::ProtobufWriter message;
  if (with_type) message.varint(1, 0);
  const std::string inside = encode_record(image);
  message.bytes(5, std::as_bytes(std::span(inside)));
  return message.text();
}

/// Returns a folder with a shard.dat of 3 x 4 x 4 images, in three classes that differ in brightness.
void write_shard(const std::filesystem::path& folder, int count) {
  std::filesystem::create_directories(folder);
  const auto out = create_pairs("kvfile", folder.string());
  for (int i = 0; i < count; ++i) {
    const int kind = i % 3;
    Record image{.shape = {3, 4, 4}, .label = kind};
    for (int k = 0; k < 48; ++k) image.pixel += static_cast<char>(60 * kind + (7 * i + 3 * k) % 20);
    out->put(fmt::format("{:05}", i), wrapped(image, i % 2 == 0));
  }
  out->commit();
}

/// A small version of SINGA 0.1's examples/cifar10/job.conf.
std::string old_job(const Folder& folder, const std::string& more) {
  return fmt::format(R"(name: "old" train_steps: 600 disp_freq: 10 {1}
train_one_batch {{ alg: kBP }}
updater {{ type: kSGD momentum: 0.9 learning_rate {{ type: kFixed base_lr: 0.001 }} }}
neuralnet {{
  layer {{ name: "data" type: kShardData sharddata_conf {{ path: "{0}/train" batchsize: 12 }} exclude: kTest }}
  layer {{ name: "data" type: kShardData sharddata_conf {{ path: "{0}/test" batchsize: 15 }} exclude: kTrain }}
  layer {{ name: "rgb" type: kRGBImage srclayers: "data" rgbimage_conf {{ meanfile: "{0}/mean.bin" }} }}
  layer {{ name: "label" type: kLabel srclayers: "data" }}
  layer {{
    name: "scores" type: kInnerProduct srclayers: "rgb" innerproduct_conf {{ num_output: 3 }}
    param {{ name: "w" init {{ type: kGaussian std: 0.01 }} }}
    param {{ name: "b" init {{ type: kConstant value: 0 }} }}
  }}
  layer {{ name: "loss" type: kSoftmaxLoss srclayers: "scores" srclayers: "label" }}
}}
cluster {{ workspace: "{0}/work" }}
)",
                     folder.path().string(), more);
}

TEST(OldFiles, ShardsMeansAndPairsOfDataLayersTrainAndTest) {
  const Folder folder;
  write_shard(folder / "train", 60);
  write_shard(folder / "test", 30);
  // SINGA 0.1 writes the record of the mean to a file of its own.
  std::ofstream(folder / "mean.bin", std::ios::binary)
      << encode_record({.shape = {3, 4, 4}, .data = std::vector<float>(48, 70)});
  const Job job = Job::from_text(old_job(folder, "test_freq: 600 validate_freq: 600"), "old.conf");
  const JobResult result = run_job(job, silent());
  EXPECT_GT(metric(result.reports.back(), "acc"), 0.9);
  std::vector<std::string> phases;
  for (const JobReport& report : result.reports) phases.push_back(report.phase);
  EXPECT_EQ(phases[0], "validate");  // for the layer that does not train
  EXPECT_EQ(phases[1], "test");
  EXPECT_EQ(result.reports[0].metrics, result.reports[1].metrics);
}

TEST(OldFiles, ARecordInsideAnotherIsReadAsItself) {
  const Record image{.shape = {2, 3}, .label = 7, .pixel = "abcdef"};
  for (const bool with_type : {false, true}) {
    const std::string message = wrapped(image, with_type);
    const Record read = parse_record(std::as_bytes(std::span(message)), "shard");
    EXPECT_EQ(read.shape, image.shape);
    EXPECT_EQ(read.label, image.label);
    EXPECT_EQ(read.pixel, image.pixel);
  }
}

TEST(OldFiles, AMeanFileIsARecordOrAPair) {
  const Folder folder;
  const std::vector<float> mean = {1, 2, 3, 4, 5, 6};
  std::ofstream(folder / "old.bin", std::ios::binary) << encode_record({.shape = {1, 2, 3}, .data = mean});
  write_mean((folder / "new.bin").string(), {1, 2, 3}, mean);
  EXPECT_EQ(read_mean((folder / "old.bin").string()).data, mean);
  EXPECT_EQ(read_mean((folder / "new.bin").string()).data, mean);
  std::ofstream(folder / "bad.bin", std::ios::binary) << "no mean";
  EXPECT_THROW((void)read_mean((folder / "bad.bin").string()), FileError);
}

TEST(OldFiles, AGruTakesSamplesWithoutSteps) {
  const Folder folder;
  (void)points(folder);
  const std::string text = fmt::format(R"(name: "gru" train_steps: 301 disp_freq: 100
train_one_batch {{ alg: kBP }}
updater {{ type: kSGD momentum: 0.9 learning_rate {{ type: kFixed base_lr: 0.1 }} }}
neuralnet {{
  layer {{ name: "data" type: kCSVInput store_conf {{ path: "{0}/points.csv" batchsize: 24 shape: 4 }} }}
  layer {{ name: "gru" type: kGRU srclayers: "data" gru_conf {{ dim_hidden: 6 }} }}
  layer {{ name: "scores" type: kInnerProduct srclayers: "gru" innerproduct_conf {{ num_output: 3 }} }}
  layer {{ name: "loss" type: kSoftmaxLoss srclayers: "scores" srclayers: "data" }}
}}
cluster {{ workspace: "{0}/work" }}
)",
                                       folder.path().string());
  const JobResult result = run_job(Job::from_text(text), silent());
  const std::vector<double> all = losses(result);
  EXPECT_LT(all.back(), 0.7 * all.front());
}

}  // namespace
}  // namespace pleiad::test

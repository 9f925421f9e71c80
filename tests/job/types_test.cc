// Every layer type of SINGA 0.3, in a job, and its function there.
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <map>

#include "job/job.pb.h"
#include "job/singa_layers.h"
#include "pleiad/data.h"
#include "pleiad/error.h"
#include "pleiad/nn/layers.h"
#include "pleiad/records.h"
#include "tests/job/small_job.h"

namespace pleiad::test {
namespace {

constexpr int kImages = 40;

int pixel(int image, int i) { return (image * 31 + i * 7 + (image % 2) * 90 * (i % 3)) % 251; }

/// Writes records of 2 x 6 x 6 and 1 x 6 x 6 as kvfiles, encoded images, lmdb, text lines and a text.
class JobTypes : public testing::Test {
 protected:
  void SetUp() override {
    write("kvfile", "images.bin", 2);
    write("kvfile", "digits.bin", 1);
    write("lmdb", "images.mdb", 2);
    std::ofstream csv(path("images.csv"));
    for (int n = 0; n < kImages; ++n) {
      csv << n % 2;
      for (int i = 0; i < 72; ++i) csv << "," << pixel(n, i) / 128.0;
      csv << "\n";
    }
    std::ofstream text(path("text.txt"));
    for (int i = 0; i < 400; ++i) text << "abcd"[i % 4];
    std::ofstream(path("vocab.txt")) << "abcd";
  }

  [[nodiscard]] std::string path(const std::string& name) const { return (folder / name).string(); }

  void write(const std::string& kind, const std::string& name, int channels) const {
    const auto out = create_store({.kind = kind,
                                   .paths = {path(name)},
                                   .data = {.name = "data", .type = FieldType::uint8, .shape = {channels, 6, 6}}});
    for (int n = 0; n < kImages; ++n) {
      std::vector<std::uint8_t> pixels;
      for (int i = 0; i < channels * 36; ++i) pixels.push_back(static_cast<std::uint8_t>(pixel(n, i)));
      out->write(std::as_bytes(std::span(pixels)), n % 2);
    }
    out->commit();
  }

  /// Returns a job of these layers, in which FOLDER is replaced by this folder.
  [[nodiscard]] Job job(std::string layers, const std::string& more = "disp_freq: 1", const std::string& net = "",
                        const std::string& alg = "kBP", const std::string& cluster = "") const {
    for (std::size_t at = 0; (at = layers.find("FOLDER")) != std::string::npos;) {
      layers.replace(at, 6, folder.path().string());
    }
    return Job::from_text(fmt::format(R"(name: "types" train_steps: 4 {}
train_one_batch {{ alg: {} }}
updater {{ type: kSGD learning_rate {{ type: kFixed base_lr: 0.05 }} }}
neuralnet {{ {}
{}
}}
cluster {{ workspace: "{}" {} }})",
                                      more, alg, net, layers, path("work"), cluster),
                          "types.conf");
  }

  [[nodiscard]] std::vector<double> trained(const std::string& layers) const {
    return losses(run_job(job(layers), silent()));
  }

  const Folder folder;
};

const std::string kStore = "store_conf { path: \"FOLDER/images.bin\" batchsize: 20 mean_value: 120 std_value: 64 }";
const std::string kData = "layer { name: \"data\" type: kRecordInput " + kStore + " }\n";
const std::string kDigits =
    "layer { name: \"data\" type: kShardData sharddata_conf { path: \"FOLDER/digits.bin\" batchsize: 20 } }\n";
const std::string kText =
    "layer { name: \"data\" type: kCharRNN char_rnn_conf { path: \"FOLDER/text.txt\" vocab_path: \"FOLDER/vocab.txt\" "
    "batchsize: 5 unroll_len: 6 } }\n";

std::string layer(const std::string& name, const std::string& type, const std::string& from,
                  const std::string& more = "") {
  return fmt::format("layer {{ name: \"{}\" type: {} srclayers: \"{}\" {} }}\n", name, type, from, more);
}
std::string ip(const std::string& from, int out = 2, const std::string& name = "ip") {
  return layer(name, "kInnerProduct", from, fmt::format("innerproduct_conf {{ num_output: {} }}", out));
}
std::string loss(const std::string& from, const std::string& label, const std::string& type = "kSoftmaxLoss") {
  return layer("loss", type, from, fmt::format("srclayers: \"{}\"", label));
}
/// The net that tests a layer on images.
std::string through(const std::string& type, const std::string& more = "") {
  return kData + layer("mid", type, "data", more) + ip("mid") + loss("ip", "data");
}
/// The net that tests a layer on text: it predicts the next character.
std::string reading(const std::string& code) {
  return kText + code + layer("gru", "kGRU", "code", "gru_conf { dim_hidden: 8 }") + ip("gru", 4) +
         layer("label", "kRNNLabel", "data") + loss("ip", "label");
}

struct Use {
  std::string layers;
  std::string net = {};
  std::string alg = "kBP";
};

/// A net for each type.
std::map<std::string, Use> uses() {
  const std::string conv = "convolution_conf { num_filters: 3 kernel: 3 pad: 1 }";
  const std::string pool = "pooling_conf { kernel: 2 stride: 2 pool: AVG }";
  const std::string hot = layer("code", "kOneHot", "data", "onehot_conf { vocab_size: 4 }");
  const std::string machine = kData + layer("vis", "kRBMVis", "data", "srclayers: \"hid\" rbm_conf { hdim: 5 }") +
                              layer("hid", "kRBMHid", "vis", "rbm_conf { hdim: 5 }");
  const std::string scored = kData + ip("data") + loss("ip", "data");
  const std::string dummy =
      "layer { name: \"data\" type: kRNNDummy rnn_dummy_conf { shape: 5 integer: true low: 0 high: 4 } }\n";
  std::map<std::string, Use> all = {
      {"kCSVInput",
       {"layer { name: \"data\" type: kCSVInput store_conf { path: \"FOLDER/images.csv\" batchsize: 20 shape: 72 } "
        "}\n" +
        ip("data") + loss("ip", "data")}},
      {"kImagePreprocess", {through("kImagePreprocess", "rgbimage_conf { cropsize: 4 mirror: true }")}},
      {"kPrefetch",
       {"layer { name: \"ahead\" type: kPrefetch prefetch_conf { sublayers { name: \"data\" type: kRecordInput " +
        kStore + " } } }\n" + ip("ahead") + loss("ip", "data")}},
      {"kRecordInput", {scored}},
      {"kLMDBData",
       {"layer { name: \"data\" type: kLMDBData lmdbdata_conf { path: \"FOLDER/images.mdb\" batchsize: 20 } }\n" +
        layer("rgb", "kRGBImage", "data", "rgbimage_conf { scale: 0.01 }") + ip("rgb") +
        layer("label", "kLabel", "data") + loss("ip", "label")}},
      {"kMnist",
       {kDigits + layer("digit", "kMnist", "data", "mnist_conf { norm_a: 127.5 norm_b: 1 }") + ip("digit") +
        loss("ip", "data")}},
      {"kCharRNN", {reading(hot), "unroll_len: 6", "kBPTT"}},
      {"kEmbedding",
       {reading(layer("code", "kEmbedding", "data", "embedding_conf { vocab_size: 4 feature_dim: 3 }")),
        "unroll_len: 6", "kBPTT"}},
      {"kDropout", {through("kDropout")}},
      {"kDummy", {through("kDummy")}},
      {"kLRN", {through("kLRN", "lrn_conf { local_size: 3 }")}},
      {"kRBMHid", {machine, "", "kCD"}},
      {"kActivation", {through("kActivation", "activation_conf { type: TANH }")}},
      {"kAccuracy", {scored + layer("acc", "kAccuracy", "ip", "srclayers: \"data\"")}},
      {"kArgSort", {scored + layer("best", "kArgSort", "ip")}},
      {"kCSVOutput", {scored + layer("out", "kCSVOutput", "ip", "store_conf { path: \"FOLDER/out.csv\" }")}},
      {"kRecordOutput", {scored + layer("out", "kRecordOutput", "ip", "store_conf { path: \"FOLDER/out.bin\" }")}},
      {"kCharRNNOutput",
       {scored + layer("best", "kArgSort", "ip") +
        layer("out", "kCharRNNOutput", "best", "char_rnn_conf { vocab_path: \"FOLDER/vocab.txt\" }")}},
      {"kSlice",
       {kData + layer("cut", "kSlice", "data", "slice_conf { slice_dim: 1 num_slices: 2 }") + ip("cut", 3, "a") +
        ip("cut", 3, "b") +
        "layer { name: \"both\" type: kConcate srclayers: \"a\" srclayers: \"b\" concate_conf { concate_dim: 1 } }\n" +
        ip("both") + loss("ip", "data")}},
      {"kRNNDummy",
       {dummy + layer("code", "kOneHot", "data", "onehot_conf { vocab_size: 4 }") +
            layer("gru", "kGRU", "code", "gru_conf { dim_hidden: 8 }") + ip("gru", 4) +
            layer("again", "kRNNDummy", "code") + loss("ip", "again", "kEuclideanLoss"),
        "unroll_len: 3", "kBPTT"}},
      {"kEuclideanLoss", {kData + ip("data", 72) + loss("ip", "data", "kEuclideanLoss")}},
      {"kUserLayer", {through("kUserLayer", "user_type: \"kTypesTwice\"")}},
  };
  for (const char* type : {"kSoftmaxLoss", "kCudnnSoftmaxLoss"})
    all[type] = {kData + ip("data") + loss("ip", "data", type)};
  for (const char* type : {"kConvolution", "kCConvolution", "kCudnnConv"}) all[type] = {through(type, conv)};
  for (const char* type : {"kPooling", "kCPooling", "kCudnnPool"}) all[type] = {through(type, pool)};
  for (const char* type : {"kReLU", "kSTanh", "kSigmoid", "kSoftmax", "kBM", "kCudnnLRN", "kCudnnSoftmax",
                           "kCudnnActivation", "kCudnnBM", "kBridgeSrc", "kBridgeDst", "kSplit"}) {
    all[type] = {through(type)};
  }
  all["kCudnnBM"] = {through("kCudnnBM", "bm_conf {}")};
  // These types have no net of their own here: the net of another type contains them.
  all["kRGBImage"] = all["kLabel"] = all["kLMDBData"];
  all["kShardData"] = all["kMnist"];
  all["kRNNLabel"] = all["kOneHot"] = all["kGRU"] = all["kCharRNN"];
  all["kInnerProduct"] = all["kRecordInput"];
  all["kRBMVis"] = all["kRBMHid"];
  all["kConcate"] = all["kSlice"];
  return all;
}

TEST_F(JobTypes, EveryOneTrains) {
  register_job_layer("kTypesTwice",
                     [](const std::string&) { return nn::make_layer("activation", {{"function", "tanh"}}); });
  const std::map<std::string, Use> all = uses();
  const auto* const types =
      google::protobuf::DescriptorPool::generated_pool()->FindEnumTypeByName("pleiad.job.LayerType");
  ASSERT_EQ(types->value_count(), static_cast<int>(all.size()));
  testing::internal::CaptureStdout();
  for (int i = 0; i < types->value_count(); ++i) {
    const std::string& type = types->value(i)->name();
    SCOPED_TRACE(type);
    ASSERT_TRUE(all.contains(type));
    const Use& use = all.at(type);
    EXPECT_NE(use.layers.find(type + " "), std::string::npos) << use.layers;
    try {
      const std::vector<double> seen = losses(run_job(job(use.layers, "disp_freq: 1", use.net, use.alg), silent()));
      ASSERT_EQ(seen.size(), 4U);
      for (const double one : seen) EXPECT_TRUE(one > 0 && one < 1e4) << one;
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
  // The layer prints a character for each of 20 outputs of 4 steps.
  EXPECT_EQ(testing::internal::GetCapturedStdout().size(), 80U);
}

TEST_F(JobTypes, WhatIsReadAheadIsTheSame) {
  const std::string bare = kData + ip("data") + loss("ip", "data");
  const std::string ahead = uses().at("kPrefetch").layers;
  EXPECT_EQ(trained(ahead), trained(bare));
  const Job read = job(ahead);
  EXPECT_NE(read.text().find("prefetch_conf"), std::string::npos) << "the text is that of the file";
  std::string wrong = ahead;
  wrong.replace(wrong.find("batchsize: 20"), 13, "batchsize: 0");
  try {
    (void)run_job(job(wrong), silent());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "types.conf:5: layer \"data\", store_conf.batchsize[0]: expected 1 or more; received 0");
  }
}

TEST_F(JobTypes, EncodedImagesAreThoseTheyWere) {
  // Images as files, then as records.
  const std::string pictures = path("pictures");
  const auto out = create_store(
      {.kind = "images", .paths = {pictures}, .data = {.name = "data", .type = FieldType::uint8, .shape = {1, 6, 6}}});
  for (int n = 0; n < kImages; ++n) {
    std::vector<std::uint8_t> pixels;
    for (int i = 0; i < 36; ++i) pixels.push_back(static_cast<std::uint8_t>(pixel(n, i)));
    out->write(std::as_bytes(std::span(pixels)), n % 2);
  }
  out->commit();
  std::map<std::string, std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(pictures)) {
    if (entry.is_regular_file()) files[entry.path().filename().string()] = entry.path();
  }
  ASSERT_EQ(files.size(), static_cast<std::size_t>(kImages));
  const auto records = create_pairs("kvfile", path("encoded.bin"));
  int n = 0;
  for (const auto& [name, file] : files) {
    std::ifstream bytes(file, std::ios::binary);
    const std::string content((std::istreambuf_iterator<char>(bytes)), {});
    records->put(name, encode_record({.shape = {1, 6, 6}, .label = n++ % 2, .pixel = content}));
  }
  records->commit();
  const auto with = [&](const std::string& file, const std::string& more) {
    return trained("layer { name: \"data\" type: kRecordInput store_conf { path: \"FOLDER/" + file +
                   "\" batchsize: 20 mean_value: 120 std_value: 64 " + more + " } }\n" + ip("data") +
                   loss("ip", "data"));
  };
  const std::vector<double> plain = with("digits.bin", "");
  EXPECT_EQ(with("encoded.bin", "encoded: true"), plain);
  EXPECT_EQ(with("encoded.bin", "encoded: true shape: 1 shape: 6 shape: 6"), plain);
  EXPECT_EQ(with("encoded.bin", "encoded: true shape: 1 shape: 12 shape: 12").size(), 4U) << "scaled";
  // A damaged file is an error or another image, and never ends the process.
  std::ifstream whole(path("encoded.bin"), std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(whole)), {});
  int refused = 0;
  for (std::uint32_t seed = 0; seed < 150; ++seed) {
    std::ofstream(path("damaged.bin"), std::ios::binary) << damage(bytes, seed);
    try {
      (void)with("damaged.bin", "encoded: true shape: 1 shape: 6 shape: 6");
    } catch (const Error&) {  // an error of the file, or of a label that the loss does not know
      ++refused;
    }
  }
  EXPECT_GT(refused, 30);
  try {
    (void)with("digits.bin", "encoded: true");
    FAIL();
  } catch (const FileError& error) {
    EXPECT_NE(std::string(error.what()).find("digits.bin: record 0"), std::string::npos) << error.what();
  }
}

TEST_F(JobTypes, DistortedDigitsDifferInTrainingAlone) {
  const auto net = [&](const std::string& more) {
    return kDigits + layer("digit", "kMnist", "data", "mnist_conf { norm_a: 127.5 norm_b: 1 " + more + " }") +
           ip("digit") + loss("ip", "data");
  };
  const auto run = [&](const std::string& more, const std::string& cluster = "") {
    return run_job(job(net(more), "disp_freq: 1 test_freq: 4", "", "kBP", cluster), silent());
  };
  const std::string bent = "kernel: 5 sigma: 2 alpha: 3 beta: 15 gamma: 15";
  const JobResult plain = run(""), other = run(bent);
  EXPECT_EQ(metric(plain.reports[0], "loss"), metric(other.reports[0], "loss")) << "a test sees them as they are";
  const std::vector<double> a = losses(plain), b = losses(other);
  EXPECT_NE(a[0], b[0]);
  EXPECT_NEAR(a[0], b[0], 0.5 * a[0]) << "they are still the same digits";
  // The random distortions do not depend on the rank that computes them, and without options nothing is distorted.
  const std::vector<double> two = losses(run(bent, "nworkers_per_group: 2"));
  for (std::size_t i = 0; i < b.size(); ++i) EXPECT_NEAR(two[i], b[i], 1e-5 * b[i]);
  const std::vector<double> same = losses(run("resize: 6"));
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(same[i], a[i], 1e-5 * a[i]);
  EXPECT_EQ(losses(run("resize: 9")).size(), 4U);
  for (const std::string wrong : {"gamma: 100", "gamma: nan", "alpha: nan", "alpha: inf", "beta: nan", "beta: -inf"}) {
    const std::string field = wrong.substr(0, wrong.find(':'));
    try {
      (void)run("kernel: 5 " + wrong);
      ADD_FAILURE() << wrong;
    } catch (const InvalidArgument& error) {
      EXPECT_NE(std::string(error.what()).find("layer \"digit\", mnist_conf." + field + ": expected"),
                std::string::npos)
          << error.what();
    }
  }
  EXPECT_THROW((void)run("kernel: 5 alpha: 1 sigma: nan"), InvalidArgument);
}

TEST_F(JobTypes, ANetContinuesATextInItsTests) {
  const std::string hot = layer("code", "kOneHot", "data", "onehot_conf { vocab_size: 4 }");
  // The layer is trained with the others and does not change: no loss depends on it.
  const std::string far =
      layer("far", "kInnerProduct", "ip",
            "innerproduct_conf { num_output: 1 } param { name: \"far\" init { type: kConstant value: 0 } } "
            "param { name: \"off\" init { type: kConstant value: 3e9 } }");
  std::string text = reading(hot) + far;
  const Job learn =
      Job::from_text(job(text, "checkpoint_freq: 300", "unroll_len: 6", "kBPTT")
                         .with("train_steps: 300 updater { type: kAdam learning_rate { type: kFixed base_lr: 0.05 } }")
                         .text());
  const JobResult result = run_job(learn, silent());
  const std::string say =
      "layer { name: \"data\" type: kRNNDummy rnn_dummy_conf { shape: 1 integer: true low: 0 high: 4 "
      "dynamic_srclayer: \"best\" } }\n" +
      hot + layer("gru", "kGRU", "code", "gru_conf { dim_hidden: 8 }") + ip("gru", 4) +
      layer("best", "kArgSort", "ip") +
      layer("out", "kCharRNNOutput", "best", "char_rnn_conf { vocab_path: \"FOLDER/vocab.txt\" }");
  JobOptions test = silent();
  test.test = true;
  const std::string from = fmt::format("test_steps: 24 checkpoint_path: \"{}\"", result.checkpoint);
  testing::internal::CaptureStdout();
  const JobResult said = run_job(job(say, from, "unroll_len: 1", "kBPTT"), test);
  const std::string words = testing::internal::GetCapturedStdout();
  ASSERT_EQ(words.size(), 24U) << words;
  for (std::size_t i = 1; i < words.size(); ++i) EXPECT_EQ(words[i], "bcda"[words[i - 1] - 'a']) << words;
  EXPECT_EQ(said.reports.size(), 1U);
  const auto refused = [&](const std::string& net, const std::string& more, const std::string& words_of) {
    try {
      (void)run_job(job(net, more, "unroll_len: 1", "kBPTT"), test);
      ADD_FAILURE() << words_of;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(words_of), std::string::npos) << error.what();
    }
  };
  refused(say, fmt::format("checkpoint_path: \"{}\"", result.checkpoint),
          "test_steps: expected 1 or more: \"data\" never ends");
  std::string wrong = say;
  wrong.replace(wrong.find("\"best\" } }"), 6, "\"beast\"");
  refused(wrong, from, "rnn_dummy_conf.dynamic_srclayer: unknown layer \"beast\"");
  for (const auto& [range, words_of] : std::vector<std::pair<std::string, std::string>>{
           {"low: 4 high: 0", "rnn_dummy_conf.high: expected more than low, which is 4; received 0"},
           {"low: 4 high: 4", "rnn_dummy_conf.high: expected more than low, which is 4; received 4"},
           {"low: 0 high: 3e9", "rnn_dummy_conf.high: expected a value that fits in int32; received 3000000000"},
           {"low: -3e9 high: 4", "rnn_dummy_conf.low: expected a value that fits in int32; received -3000000000"},
           {"low: nan high: 4", "rnn_dummy_conf.low: expected a finite number; received nan"}}) {
    wrong = say;
    wrong.replace(wrong.find("low: 0 high: 4"), 14, range);
    refused(wrong, from, "layer \"data\", " + words_of);
  }
  // The input is not a symbol.
  wrong = say + far;
  wrong.replace(wrong.find("\"best\" } }"), 6, "\"far\"");
  refused(wrong, from, "\"data\" is fed by \"far\", whose output 3000000000 does not fit in int32");
  // A net that trains cannot be fed its own output; its tests may.
  test.test = false;
  const std::string never =
      "rnn_dummy_conf.dynamic_srclayer: a net can be fed its own output only in tests and validation";
  refused(say, from, never);
  std::string apart = say;
  apart.replace(apart.find("type: kRNNDummy"), 15, "type: kRNNDummy exclude: kTrain");
  refused(apart, from + " test_freq: 1", "expected a layer that provides records to train");
}

TEST_F(JobTypes, WindowsNeedNotBeSquare) {
  const auto net = [&](const std::string& type, const std::string& more) {
    return job(through(type, "pooling_conf { kernel_x: 2 kernel_y: 3 stride_x: 2 stride_y: 1 " + more + " }"));
  };
  for (const std::string type : {"kPooling", "kCPooling", "kCudnnPool"}) {
    const std::string text = describe_job(net(type, "pool: AVG"));
    EXPECT_NE(text.find("average 3x2"), std::string::npos) << text;
    EXPECT_NE(text.find("(4, 3, 2)"), std::string::npos) << "of 6 x 6: " << text;
    EXPECT_EQ(losses(run_job(net(type, "pool: AVG"), silent())).size(), 4U);
  }
  const auto said = [&](const std::string& more) -> std::string {
    try {
      (void)describe_job(net("kPooling", more));
      return "nothing";
    } catch (const InvalidArgument& error) {
      return error.what();
    }
  };
  EXPECT_NE(said("pad_x: 2 pad_y: 1").find("pooling_conf.pad_x: expected less than the kernel, 2; received 2"),
            std::string::npos);
  EXPECT_NE(said("pad_x: 1").find("pooling_conf.pad_x: expected both _x and _y, or neither"), std::string::npos);
}

TEST_F(JobTypes, AnInstanceMayHaveSeveralSoftmaxes) {
  // Two softmaxes per row; two per image of two channels, which SINGA stores before height and width; one per step.
  const auto run = [](std::int64_t groups, bool each_step, const Shape& shape) {
    const nn::LayerPtr made = job::instance_softmax(groups, each_step);
    nn::Pass pass;
    const auto tensor = [&] { return Tensor(DType::float64, shape); };
    pass.x = {tensor()}, pass.y = {tensor()}, pass.dy = {tensor()}, pass.dx = {tensor()};
    for (std::int64_t i = 0; i < shape.count(); ++i) {
      pass.x[0].values<double>()[i] = std::sin(1.3 * static_cast<double>(i));
      pass.dy[0].values<double>()[i] = std::cos(0.7 * static_cast<double>(i));
    }
    EXPECT_EQ(made->outputs({shape})[0], shape);
    made->forward(pass);
    const Tensor y = pass.y[0].clone();
    made->backward(pass);
    for (std::int64_t i = 0; i < shape.count(); ++i) {  // compared with finite differences
      constexpr double kStep = 1e-6;
      const auto sum = [&](double step) {
        pass.x[0].values<double>()[i] += step;
        made->forward(pass);
        pass.x[0].values<double>()[i] -= step;
        double all = 0;
        for (std::int64_t k = 0; k < shape.count(); ++k) all += pass.y[0].at(k) * pass.dy[0].at(k);
        return all;
      };
      EXPECT_NEAR((sum(kStep) - sum(-kStep)) / (2 * kStep), pass.dx[0].at(i), 1e-8) << i;
    }
    return y;
  };
  const Tensor rows = run(2, false, {2, 6});
  for (int first = 0; first < 12; first += 3) {
    EXPECT_NEAR(rows.at(first) + rows.at(first + 1) + rows.at(first + 2), 1, 1e-12);
    EXPECT_NEAR(rows.at(first) / rows.at(first + 1), std::exp(std::sin(1.3 * first) - std::sin(1.3 * (first + 1))),
                1e-12);
  }
  const Tensor images = run(2, false, {2, 2, 3, 2});
  for (int n = 0; n < 2; ++n) {
    for (int channel = 0; channel < 2; ++channel) {
      double sum = 0;
      for (int place = 0; place < 6; ++place) sum += images.at(n * 12 + place * 2 + channel);
      EXPECT_NEAR(sum, 1, 1e-12);
    }
  }
  const Tensor steps = run(1, true, {2, 3, 2});
  for (int i = 0; i < 12; i += 2) EXPECT_NEAR(steps.at(i) + steps.at(i + 1), 1, 1e-12);
  // In a job, one softmax of an image covers all its elements.
  const auto with = [&](const std::string& count) {
    return job(through("kSoftmax", "softmax_conf { num_softmax_per_instance: " + count + " }"));
  };
  for (const std::string count : {"1", "2", "36"}) {
    EXPECT_NE(describe_job(with(count)).find(count + " to an instance"), std::string::npos)
        << describe_job(with(count));
    EXPECT_EQ(losses(run_job(with(count), silent())).size(), 4U);
  }
  try {
    (void)describe_job(with("7"));
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("72 values cannot be divided into 7 equal parts"), std::string::npos)
        << error.what();
  }
}

TEST_F(JobTypes, AConnectionThatSingaDoesNotHaveIsRefused) {
  const auto said = [&](const std::string& more) -> std::string {
    try {
      (void)describe_job(job(reading(layer("code", "kOneHot", "data", "onehot_conf { vocab_size: 4 } " + more)),
                             "disp_freq: 1", "unroll_len: 6", "kBPTT"));
      return "nothing";
    } catch (const InvalidArgument& error) {
      return error.what();
    }
  };
  EXPECT_NE(said("shift: 1").find("layer \"code\", shift[0]: expected 0; received 1"), std::string::npos);
  EXPECT_NE(said("unroll_conn_type: kUnrollCustomized").find("received kUnrollCustomized"), std::string::npos);
}

TEST_F(JobTypes, ASequenceBeginsWhereAnotherEnded) {
  const auto net = [&](const std::string& second) {
    return kText + layer("code", "kOneHot", "data", "onehot_conf { vocab_size: 4 }") +
           layer("first", "kGRU", "code",
                 "gru_conf { dim_hidden: 8 } param { name: \"z\" init { type: kGaussian std: 1 } }") +
           layer("gru", "kGRU", "code", second + " gru_conf { dim_hidden: 8 }") + ip("gru", 4) +
           layer("label", "kRNNLabel", "data") + loss("ip", "label");
  };
  const auto seen = [&](const std::string& second) {
    return losses(run_job(job(net(second), "disp_freq: 1", "unroll_len: 6", "kBPTT"), silent()));
  };
  const std::string both = "srclayers: \"first\" unroll_conn_type: kUnrollOneToOne unroll_conn_type: ";
  EXPECT_NE(seen(both + "kUnrollFirstToLast"), seen(""));
  try {
    (void)seen(both + "kUnrollOneToOne");
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("expected kUnrollFirstToLast for the second source"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace pleiad::test

// A small job for tests: points in three classes, a dense net.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <string>

#include "pleiad/job.h"
#include "tests/file/folder.h"
#include "tests/file/mutate.h"

namespace pleiad::test {

/// Returns `count` points in four dimensions, in three classes, one line each.
inline std::string points(const Folder& folder, int count = 240) {
  const std::string path = (folder / "points.csv").string();
  std::ofstream file(path);
  for (int i = 0; i < count; ++i) {
    const int kind = i % 3;
    file << kind;
    for (int k = 0; k < 4; ++k) {
      file << fmt::format(",{:.4f}", std::sin(1.7 * kind + k) + 0.3 * std::cos(12.9 * i + 7.1 * k));
    }
    file << "\n";
  }
  return path;
}

struct SmallJob {
  int steps = 20;
  int batch = 24;
  std::string more = {};     ///< additional fields of the job
  std::string cluster = {};  ///< and of its cluster
  std::string updater = "type: kSGD momentum: 0.9 weight_decay: 0.001 learning_rate { type: kFixed base_lr: 0.1 }";
  std::string net = {};     ///< additional fields of the net
  std::string hidden = {};  ///< additional fields of the hidden layer
};

inline std::string small_text(const Folder& folder, const SmallJob& job) {
  return fmt::format(R"(name: "small"
train_steps: {}
{}
train_one_batch {{ alg: kBP }}
updater {{ {} }}
neuralnet {{
  {}
  layer {{
    name: "data" type: kCSVInput include: kTrain
    store_conf {{ path: "{}" batchsize: {} shape: 4 }}
  }}
  layer {{
    name: "data" type: kCSVInput exclude: kTrain
    store_conf {{ path: "{}" batchsize: 40 shape: 4 }}
  }}
  layer {{
    name: "hidden" type: kInnerProduct srclayers: "data"
    innerproduct_conf {{ num_output: 8 }}
    param {{ name: "w1" init {{ type: kGaussian std: 0.5 }} }}
    param {{ name: "b1" lr_scale: 2 wd_scale: 0 init {{ type: kConstant value: 0 }} }}
    {}
  }}
  layer {{ name: "act" type: kSTanh srclayers: "hidden" }}
  layer {{
    name: "scores" type: kInnerProduct srclayers: "act"
    innerproduct_conf {{ num_output: 3 }}
    param {{ name: "w2" init {{ type: kUniform low: -0.5 high: 0.5 }} }}
    param {{ name: "b2" init {{ type: kConstant value: 0 }} }}
  }}
  layer {{ name: "loss" type: kSoftmaxLoss srclayers: "scores" srclayers: "data" }}
}}
cluster {{ workspace: "{}" {} }}
)",
                     job.steps, job.more, job.updater, job.net, (folder / "points.csv").string(), job.batch,
                     (folder / "points.csv").string(), job.hidden, (folder / "work").string(), job.cluster);
}

inline Job small_job(const Folder& folder, const SmallJob& job) {
  (void)points(folder);
  return Job::from_text(small_text(folder, job), "small.conf");
}

inline std::string damage(const std::string& text, std::uint32_t seed) {
  std::mt19937 random(seed);
  return mutated(text, random);
}

inline JobOptions silent() {
  JobOptions options;
  options.display = "off";
  return options;
}

inline double metric(const JobReport& report, const std::string& name) {
  for (const auto& [each, value] : report.metrics) {
    if (each == name) return value;
  }
  return std::nan("");
}

/// Returns the training losses, in order.
inline std::vector<double> losses(const JobResult& result) {
  std::vector<double> all;
  for (const JobReport& report : result.reports) {
    if (report.phase == "train") all.push_back(metric(report, "loss"));
  }
  return all;
}

}  // namespace pleiad::test

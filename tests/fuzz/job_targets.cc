// Fuzz targets that need nets or jobs.
#include <string>

#include "pleiad/job.h"
#include "pleiad/nn/net.h"
#include "tests/fuzz/target.h"
#include "train/torch_file.h"

namespace pleiad::fuzz {

namespace {

void run_job_conf(Input input) {
  expect_contract("job.conf", [&] { (void)Job::from_text(std::string(text_of(input)), "job.conf"); });
}

void run_job_bytes(Input input) {
  expect_contract("job", [&] { (void)Job::from_bytes(std::string(text_of(input)), "job"); });
}

void run_net(Input input) {
  expect_contract("net.json", [&] { (void)nn::net_from_text(std::string(text_of(input)), "net.json"); });
}

void run_torch(Input input) {
  const std::string path = file_of(input);
  expect_contract(path, [&] { (void)read_torch_file(path); });
}

/// A SINGA checkpoint, for a net of one dense layer.
void run_blobs(Input input) {
  static const Job job = Job::from_text(R"(name: "small"
train_steps: 1
train_one_batch { alg: kBP }
updater { type: kSGD learning_rate { type: kFixed base_lr: 0.1 } }
neuralnet {
  layer { name: "data" type: kCSVInput store_conf { path: "none.csv" batchsize: 2 shape: 2 } }
  layer {
    name: "dense" type: kInnerProduct srclayers: "data" innerproduct_conf { num_output: 2 }
    param { name: "w1" init { type: kGaussian std: 0.5 } }
    param { name: "b1" init { type: kConstant value: 0 } }
  }
  layer { name: "loss" type: kSoftmaxLoss softmaxloss_conf { topk: 1 } srclayers: "dense" srclayers: "data" }
}
cluster { workspace: "none" }
)",
                                        "job.conf");
  static nn::Net net = net_of_job(job);
  const std::string path = file_of(input);
  expect_contract(path, [&] { (void)load_job_checkpoint(job, net, path); });
}

constexpr Target kTargets[] = {
    {"blobs", run_blobs, 1024}, {"job_conf", run_job_conf, 4096}, {"job_bytes", run_job_bytes, 2048},
    {"net", run_net, 4096},     {"torch", run_torch, 4096},
};

}  // namespace

std::span<const Target> targets() { return kTargets; }

}  // namespace pleiad::fuzz

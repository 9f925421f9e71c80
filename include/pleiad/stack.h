// Stacks of restricted Boltzmann machines: trained one after the other, then unrolled into an auto-encoder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pleiad/api.h"
#include "pleiad/nn/layers.h"
#include "pleiad/nn/net.h"
#include "pleiad/train.h"

namespace pleiad {

struct StackOptions {
  std::string name = "stack";
  std::int64_t visible = 0;               ///< numbers of a sample
  std::vector<std::int64_t> hidden = {};  ///< units of each machine, from the lowest on
  std::string visible_units = "binary";   ///< of the lowest; or gaussian
  std::string code_units = "gaussian";    ///< hidden ones of the highest; or binary
  nn::RbmOptions rbm = {};                ///< what the machines have in common: k, chains, sample, parameters
  bool tied = false;                      ///< unrolled, the decoder uses the encoder's weights
  std::string loss = "euclidean";         ///< of the auto-encoder; or sigmoid (cross-entropy), for binary units
  DType dtype = DType::float32;
  std::uint64_t seed = 1;
};

/// The machines' numbers, and the nets they are trained and used in. All nets have the input "x".
class PLEIAD_API RbmStack {
 public:
  /// Options that make no stack are an InvalidArgument that names the field.
  explicit RbmStack(StackOptions options);
  [[nodiscard]] const StackOptions& options() const { return options_; }
  [[nodiscard]] std::size_t size() const { return options_.hidden.size(); }

  /// The net in which machine `i` learns: "enc1" to those below it, which are fixed, and "rbm".
  [[nodiscard]] nn::Net stage(std::size_t i) const;
  /// The numbers of machine `i`, from the net of its stage.
  void take(std::size_t i, const nn::Net& stage);
  /// The auto-encoder of all machines: "enc1" ... "encN", "decN" ... "dec1", and "loss" against "x".
  [[nodiscard]] nn::Net unrolled() const;

  /// Trains the machines from the lowest on, with the same options each; with options.checkpoint_folder in the folders
  /// rbm1, rbm2... of it, from which a run that was stopped goes on. False where a call or SIGINT ended it. With a
  /// session, all ranks call it.
  bool pretrain(Samples& samples, const TrainOptions& options, Session* session = nullptr,
                const std::function<TrainCalls(std::size_t)>& calls = {});

 private:
  struct Numbers {
    Tensor weight;
    Tensor hidden_bias;
    Tensor visible_bias;
  };
  [[nodiscard]] nn::Net empty_net(const std::string& name) const;
  [[nodiscard]] std::string function(std::size_t i) const;
  void encode(nn::Net& net, std::size_t count) const;

  StackOptions options_;
  std::vector<Numbers> numbers_;  // of a machine that did not learn yet: empty
};

}  // namespace pleiad

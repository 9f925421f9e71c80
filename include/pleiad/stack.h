// Stacks of restricted Boltzmann machines: trained one after the other, then unrolled into an auto-encoder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pleiad/api.h"
#include "pleiad/choice.h"
#include "pleiad/nn/layers.h"
#include "pleiad/nn/net.h"
#include "pleiad/train.h"

namespace pleiad {

/// The loss of an auto-encoder: the squared distance, or the cross-entropy after a sigmoid, for binary units.
enum class StackLoss : std::uint8_t { euclidean, sigmoid };
template <>
struct ChoiceNames<StackLoss> {
  static constexpr std::string_view family = "stack: loss";
  static constexpr std::string_view names[] = {"euclidean", "sigmoid"};
};

/// The sizes and kinds of the machines of a stack of RBMs.
struct StackOptions {
  std::string name = "stack";
  std::int64_t visible = 0;                                   ///< number of values in a sample
  std::vector<std::int64_t> hidden = {};                      ///< number of units of each machine, from the lowest up
  Choice<nn::RbmUnits> visible_units = nn::RbmUnits::binary;  ///< units of the lowest machine
  Choice<nn::RbmUnits> code_units = nn::RbmUnits::gaussian;   ///< hidden units of the highest machine
  nn::RbmOptions rbm = {};  ///< settings shared by all machines: k, chains, sample, parameters
  bool tied = false;        ///< in the auto-encoder, the decoder uses the weights of the encoder
  Choice<StackLoss> loss = StackLoss::euclidean;
  DType dtype = DType::float32;
  std::uint64_t seed = 1;
};

/// A stack of restricted Boltzmann machines, each of which is trained on the hidden units of the one below. Holds their
/// parameters, and makes the nets that train and use them. All nets have the input "x".
class PLEIAD_API RbmStack {
 public:
  /// Throws an InvalidArgument that names the field if the options are invalid.
  explicit RbmStack(StackOptions options);
  [[nodiscard]] const StackOptions& options() const { return options_; }
  [[nodiscard]] std::size_t size() const { return options_.hidden.size(); }

  /// Returns the net in which machine `i` learns: the layers "enc1" up to those below it, which are fixed, and "rbm".
  [[nodiscard]] nn::Net stage(std::size_t i) const;
  /// Copies the parameters of machine `i` from its stage.
  void take(std::size_t i, const nn::Net& stage);
  /// Returns the auto-encoder of all machines: "enc1" ... "encN", "decN" ... "dec1", and "loss" against "x".
  [[nodiscard]] nn::Net unrolled() const;

  /// Trains the machines from the lowest up, each with the same options. With options.checkpoint_folder, checkpoints
  /// are in its subfolders rbm1, rbm2, ..., and a stopped run resumes from them. Returns false if a callback or SIGINT
  /// ended the run. With a session, all ranks call it.
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
  [[nodiscard]] nn::RbmUnits visible_units(std::size_t i) const;
  [[nodiscard]] nn::RbmUnits hidden_units(std::size_t i) const;
  void encode(nn::Net& net, std::size_t count) const;

  StackOptions options_;
  std::vector<Numbers> numbers_;  // empty for a machine that has not learned yet
};

}  // namespace pleiad

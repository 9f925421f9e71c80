// How a net is laid on the ranks that train it together.
//
// Every plan shares the batch out: a rank has its samples. A layer of a dense or convolution may be cut besides: each
// rank then holds some of its outputs with their weights and computes them for the samples of all ranks. The net is the
// same net, and so is the training.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pleiad/api.h"
#include "pleiad/nn/net.h"

namespace pleiad {

struct PlanOptions {
  /// data: every rank holds all parameters, gradients are summed. feature: every layer that can be is cut by its
  /// outputs (SINGA's partition_dim 1). hybrid: the layers in `split` are, or the dense ones where it is empty.
  std::string kind = "data";
  std::vector<std::string> split = {};
};

/// What a rank does for one layer, and what it has to do with the others in a step. Bytes are those that the collective
/// calls hand to a rank or take from it, whichever is more.
struct LayerPlan {
  std::string name;
  std::string kind;
  bool cut = false;
  std::string why = {};                  ///< a layer that could not be cut, though the plan would: why
  std::int64_t outputs = 0;              ///< of a sample, the last axis; of those that may be cut
  std::vector<std::int64_t> begin = {};  ///< cut: rank r has the outputs begin[r] to begin[r + 1] - 1
  double products = 0;                   ///< of a rank in one forward pass
  std::int64_t parameter_bytes = 0;      ///< that the first rank, which has the most, holds
  std::int64_t forward_bytes = 0;        ///< inputs and outputs that are exchanged in forward
  std::int64_t backward_bytes = 0;       ///< gradients by them in backward
  std::int64_t gradient_bytes = 0;       ///< gradients by parameters
  [[nodiscard]] std::int64_t bytes() const { return forward_bytes + backward_bytes + gradient_bytes; }
};

struct Plan {
  std::string net;
  std::string kind;
  int ranks = 1;
  std::int64_t batch = 0;  ///< of all ranks together
  std::vector<LayerPlan> layers;
};

/// The plan for a net that is whole. An unknown kind or layer is an InvalidArgument that names the known ones; so is a
/// layer in `split` that cannot be cut.
[[nodiscard]] PLEIAD_API Plan make_plan(const nn::Net& net, const PlanOptions& options, int ranks, std::int64_t batch);

/// A table: who does what, and the bytes of a step.
[[nodiscard]] PLEIAD_API std::string explain(const Plan& plan);

/// Nets to look at and to begin with, by name: "mlp", "cnn", "autoencoder", "small".
[[nodiscard]] PLEIAD_API nn::Net example_net(const std::string& name);
[[nodiscard]] PLEIAD_API std::vector<std::string> example_nets();

}  // namespace pleiad

// Builds the net of a job and records how it relates to the names in the job.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "job/read.h"
#include "pleiad/nn/layers.h"
#include "pleiad/nn/net.h"

namespace pleiad::job {

/// A layer of the job that provides records, and the phases in which it does.
struct Source {
  int index = 0;           ///< index of the layer in the job
  std::string input;       ///< the net's input for the data of the records
  std::string label = {};  ///< the net's input for their labels; empty if no layer needs them
  unsigned phases = 0;     ///< mask of nn::Phase values
  Shape sample;            ///< shape of the input; images are channels last
  int parser = -1;         ///< index of the layer that says how to scale the data (kMnist, kRGBImage), or -1
};

/// A parameter of the net under its name in SINGA's checkpoints.
struct NamedParameter {
  std::string name;       ///< name in the checkpoint, for example "w1"
  std::string parameter;  ///< name in the net, for example "ip1/weight"
  int layer = 0;
  int index = 0;            ///< index of the `param` field in the layer
  bool needs_file = false;  ///< the job gives no init, so a checkpoint must contain the parameter
  bool filters = false;     ///< (filters, height, width, channels) here, (filters, channels * height * width) in files
  Shape image = {};         ///< (height, width, channels) of the dense layer's input, if that is an image
  bool transposed = false;  ///< whether that dense layer is transposed
  std::int64_t begin = 0;   ///< first element of the net's parameter that belongs to this one
  std::int64_t count = 0;
};

struct JobNet {
  nn::Net net;
  std::vector<Source> sources = {};
  std::vector<NamedParameter> parameters = {};
  std::vector<std::string> cut = {};  ///< layers with partition_dim 1 that can be split
  bool sequence = false;              ///< samples have time steps, so losses are per symbol
  bool squared = false;               ///< the loss is reported as the squared distance
};

/// The arguments of a layer factory: the position of the layer in the job, and its parameters.
struct LayerSpec {
  const JobImpl& job;
  int index;
  const LayerProto& conf;
  bool each_place = false;               ///< apply the layer to each step of a sequence
  bool carry = false;                    ///< a sequence continues the previous batch's
  bool image = false;                    ///< the first source has height, width and channels
  std::vector<std::string> shares = {};  ///< for each parameter, the net's parameter that it shares, or an empty text
  /// Returns the k-th parameter as the job specifies it, or initialised by `usual`.
  [[nodiscard]] nn::Param param(int k, const nn::Init& usual) const;
};

/// Makes the layer for a job layer that corresponds to a single layer. Returns null for input layers, connection layers
/// and other types, which build.cc handles.
[[nodiscard]] nn::LayerPtr make_job_layer(const LayerSpec& order);

[[nodiscard]] JobNet build(const Job& job);

/// Returns the phases of a layer as a mask.
[[nodiscard]] unsigned phases_of(const LayerProto& layer);

}  // namespace pleiad::job

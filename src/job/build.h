// The net of a job, and what connects it with the job's names.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "job/read.h"
#include "pleiad/nn/layers.h"
#include "pleiad/nn/net.h"

namespace pleiad::job {

/// One of the layers that bring records, for the phases in which it does.
struct Source {
  int index = 0;           ///< of the layer in the job
  std::string input;       ///< the net's input for the records' data
  std::string label = {};  ///< and for their labels; empty where no layer asks for them
  unsigned phases = 0;     ///< a mask of nn::Phase
  Shape sample;            ///< of the input: images have their channels last
  int parser = -1;         ///< the layer that says how its numbers are scaled (kMnist, kRGBImage), or -1
};

/// A parameter of the net under the name that it has in SINGA's checkpoints.
struct Named {
  std::string name;       ///< "w1"
  std::string parameter;  ///< "ip1/weight"
  int layer = 0;
  int index = 0;            ///< of `param` in the layer
  bool needs_file = false;  ///< it says no init: a checkpoint must have it
  bool filters = false;     ///< (filters, height, width, channels), in files (filters, channels * height * width)
  Shape image = {};         ///< of the input of a dense layer that is an image: (height, width, channels)
  bool transposed = false;  ///< of that dense layer
  std::int64_t begin = 0;   ///< the numbers of the net's parameter that it is, from here on
  std::int64_t count = 0;
};

struct Built {
  nn::Net net;
  std::vector<Source> sources = {};
  std::vector<Named> parameters = {};
  std::vector<std::string> cut = {};  ///< layers whose partition_dim is 1, and which can be cut
  bool sequence = false;              ///< each sample has steps of time: losses are of a symbol
  bool squared = false;               ///< its loss is told as the squared distance
};

/// What a layer's maker is given: its place in the job, and the parameters it may have.
struct LayerOrder {
  const Inside& job;
  int index;
  const LayerProto& conf;
  bool each_place = false;               ///< it works on each step of a sequence
  bool carry = false;                    ///< a sequence begins where the last one ended
  bool image = false;                    ///< its first source has height, width and channels
  std::vector<std::string> shares = {};  ///< for each parameter the one of the net that it is, or nothing
  /// The k-th parameter as the job wants it, or as usual.
  [[nodiscard]] nn::Param param(int k, const nn::Init& usual) const;
};

/// The layer for a job's layer of a kind that has one by itself; null for input, connection and other kinds, which
/// build.cc knows.
[[nodiscard]] nn::LayerPtr make_job_layer(const LayerOrder& order);

[[nodiscard]] Built build(const Job& job);

/// The phases of a layer, as a mask.
[[nodiscard]] unsigned phases_of(const LayerProto& layer);

}  // namespace pleiad::job

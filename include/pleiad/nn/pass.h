// The data that a layer works with: its parameters, its tensors in a step, and its part of a batch or an image.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pleiad/api.h"
#include "pleiad/grid.h"
#include "pleiad/interval.h"
#include "pleiad/nn/init.h"
#include "pleiad/tensor.h"

namespace pleiad::kernel {
class BlockUpdate;
}

namespace pleiad::nn {

/// The purpose of a pass through a net. Values may be combined as bits.
enum class Phase : std::uint8_t { train = 1, validate = 2, test = 4 };

/// A user's settings for one parameter.
struct Param {
  Init init = {};
  double rate_scale = 1;   ///< factor for the learning rate
  double decay_scale = 1;  ///< factor for the weight decay
  std::string share = {};  ///< share the values of the parameter of this name ("layer/weight")
  /// Above 0: each filter (as many elements as an output has inputs) is scaled to this L2 norm at the start and after
  /// each update.
  double norm = 0;
  /// If several layers share the parameter: apply the gradient of each layer as a separate update, in the order of
  /// backward.
  bool apart = false;
};

/// A parameter that a layer declares.
struct ParamSpec {
  std::string name;  ///< "weight"; in the net it becomes "layer/weight"
  Shape shape;
  Param wanted;
  std::int64_t fan_in = 1;
  std::int64_t fan_out = 1;
  bool pieces = false;  ///< backward can pass the gradient to an update block by block
};

/// A batch that is split into shards, each computed by its own group. Layers use this interface to combine values over
/// the whole batch.
class PLEIAD_API BatchParts {
 public:
  virtual ~BatchParts() = default;
  [[nodiscard]] virtual int count() const = 0;
  /// Returns the index of this shard.
  [[nodiscard]] virtual int index() const { return 0; }
  /// Replaces the values by their sums over all shards. All shards make these calls in the same order. A shard may be
  /// empty.
  virtual void sum(std::span<double> numbers) = 0;
  /// The same for integers, whose sums do not depend on how the batch is split.
  virtual void sum(std::span<std::int64_t> numbers) = 0;
};

/// The tensors that a layer works on in one step. The net fills it once, in prepare.
struct Pass {
  std::vector<Tensor> x;   ///< inputs
  std::vector<Tensor> y;   ///< outputs
  std::vector<Tensor> dy;  ///< gradients of the outputs; backward may overwrite them
  std::vector<Tensor> dx;  ///< gradients of the inputs; empty if not needed
  std::vector<Tensor> parameter;
  /// gradients of the parameters, to be written; empty if `update` takes it or it is not needed
  std::vector<Tensor> gradient;
  std::vector<kernel::BlockUpdate*> update;  ///< receives the gradient block by block; null if none does
  std::vector<Tensor> state;                 ///< tensors that are saved with the parameters but not trained
  std::vector<Tensor> workspace;             ///< passed from forward to backward
  std::vector<Tensor> carried;  ///< passed from a batch to the next, sample by sample; validation and test share it
  Phase phase = Phase::train;
  std::string name;  ///< name of the layer in its net, used to draw random numbers
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::int64_t first_sample = 0;  ///< position of this batch's first sample in the batch of all ranks
  BatchParts* parts = nullptr;    ///< null if this is the whole batch
  /// The factor of each sample in what a loss adds to the gradient: (batch), of the net's element type. Empty: all 1.
  Tensor weights = {};
  /// This rank has no sample of the batch. The one sample of the pass belongs to no batch: it counts in no sum over the
  /// batch, and the gradients are discarded.
  bool placeholder = false;
};

/// One rank's tile of a layer's images. The layer computes the positions `out` of outputs of size out_h x out_w from
/// the positions `in` of images of size in_h x in_w. `in` is the result of input_interval, clipped to the image.
struct TilePlace {
  Rect in;
  Rect out;
  std::int64_t in_h = 0, in_w = 0;
  std::int64_t out_h = 0, out_w = 0;
};

/// One shape with the batch as first axis for each input; images are (batch, height, width, channels).
using Shapes = std::vector<Shape>;

/// Pairs of an option's name and its value as text.
using LayerFields = std::vector<std::pair<std::string, std::string>>;

class Layer;
using LayerPtr = std::unique_ptr<Layer>;

}  // namespace pleiad::nn

// The interface of a layer. A layer knows its mathematics and which inputs an output depends on. It never knows about
// ranks.
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
  std::vector<Tensor> carried;  ///< passed from a batch to the next one of the same phase, sample by sample
  Phase phase = Phase::train;
  std::string name;  ///< name of the layer in its net, used to draw random numbers
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::int64_t first_sample = 0;  ///< position of this batch's first sample in the batch of all ranks
  BatchParts* parts = nullptr;    ///< null if this is the whole batch
};

/// One rank's tile of a layer's images. The layer computes the positions `out` of outputs of size out_h x out_w from
/// the positions `in` of images of size in_h x in_w. `in` is the result of input_interval, clipped to the image.
struct TilePlace {
  Rect in;
  Rect out;
  std::int64_t in_h = 0, in_w = 0;
  std::int64_t out_h = 0, out_w = 0;
};

class Layer;
using LayerPtr = std::unique_ptr<Layer>;

/// One shape with the batch as first axis for each input; images are (batch, height, width, channels).
using Shapes = std::vector<Shape>;

/// Pairs of an option's name and its value as text.
using LayerFields = std::vector<std::pair<std::string, std::string>>;

/// A layer of a net. Mistakes in options and shapes are InvalidArguments that say what was expected and what was
/// received; the net adds the layer's name.
class PLEIAD_API Layer {
 public:
  virtual ~Layer() = default;
  [[nodiscard]] virtual std::string kind() const = 0;
  /// Returns the shapes of the outputs, at least one.
  [[nodiscard]] virtual Shapes outputs(const Shapes& in) const = 0;
  [[nodiscard]] virtual std::vector<ParamSpec> parameters(const Shapes& in) const;
  /// Returns the tensors that are kept from step to step and saved, such as running means: name, shape, initial value.
  [[nodiscard]] virtual std::vector<ParamSpec> states(const Shapes& in) const;
  /// Returns the shapes of what forward saves for backward besides x and y.
  [[nodiscard]] virtual Shapes workspace(const Shapes& in) const;
  /// Returns the shapes, with the batch, of the per-sample values that are passed to the batch of the next step, such
  /// as the last outputs of a recurrent layer. They start as 0.
  [[nodiscard]] virtual Shapes carried(const Shapes& in) const;
  /// input_type() and output_type() return the element types of input `i` and output `k` in a net with the type `net`,
  /// such as int32 for labels.
  [[nodiscard]] virtual DType input_type(std::size_t i, DType net) const;
  [[nodiscard]] virtual DType output_type(std::size_t k, DType net) const;
  /// Returns whether input `i` may have the type `given`. By default only input_type is accepted.
  [[nodiscard]] virtual bool takes(std::size_t i, DType given, DType net) const;
  /// Returns the positions along height (axis 1) or width (axis 2) of the inputs that the output positions `out` depend
  /// on. If the dependency is not local, this is the whole image.
  [[nodiscard]] virtual Interval input_interval(Interval out, int axis) const;
  /// Returns false if outputs depend on more positions than input_interval returns (flatten, dense).
  [[nodiscard]] virtual bool spatial() const { return false; }
  /// Returns a layer that computes the same on one tile with the same parameters, or null if that is not possible. For
  /// a spatial layer of a known kind the default returns an equal layer.
  [[nodiscard]] virtual LayerPtr on_tile(const TilePlace& place) const;
  /// Returns true for a parameter whose first two axes are the positions of the output. A tile holds only its own
  /// positions of such a parameter.
  [[nodiscard]] virtual bool of_places(std::size_t /*parameter*/) const { return false; }
  /// Returns true if an output position is the sum of contributions from the input positions that reach it (transposed
  /// filters). In that case output_interval returns the output positions that the input positions `in` contribute to,
  /// on_tile takes input positions and computes all that they contribute to, and of_places refers to the positions of
  /// the input.
  [[nodiscard]] virtual bool spreads() const { return false; }
  [[nodiscard]] virtual Interval output_interval(Interval in, int axis) const;
  /// Returns true for a loss that is a sum over the positions of its images, so that each tile computes a share of it.
  [[nodiscard]] virtual bool sums_places() const { return false; }
  /// Returns true if the outputs of a sample depend on the other samples of the batch.
  [[nodiscard]] virtual bool couples_samples() const { return false; }
  /// Returns the names of the scalars that a layer produces in place of outputs with a batch. The first one is the
  /// loss.
  [[nodiscard]] virtual std::vector<std::string> metrics() const { return {}; }
  /// Returns false for a layer whose metrics contain no loss.
  [[nodiscard]] virtual bool has_loss() const { return true; }
  /// Returns true if backward computes a gradient of input `i`.
  [[nodiscard]] virtual bool differentiable(std::size_t i) const;
  /// Returns the index of the parameter that is added to each channel (the last axis) of the first output as the last
  /// operation, as a bias without an activation is; -1 if there is none.
  [[nodiscard]] virtual int shift_parameter() const { return -1; }
  /// Returns true if adding a constant to a channel of the first input changes nothing in training. A shift before such
  /// a layer has the gradient 0. Rounding would turn it into noise, from which rules such as Adam take full steps.
  [[nodiscard]] virtual bool removes_shift() const { return false; }
  /// Returns the number of multiplications in one forward pass; backward takes about twice as many.
  [[nodiscard]] virtual double products(const Shapes& in) const;
  /// Returns one line for describe(), such as "128 filters 5x5".
  [[nodiscard]] virtual std::string summary() const { return {}; }

  /// The options that differ from their defaults. make_layer(kind(), options()) builds an equal layer.
  [[nodiscard]] const LayerFields& options() const { return options_; }
  void set_options(LayerFields options) { options_ = std::move(options); }

  /// Makes the results bit-identical however images are split over ranks: sums over positions are exact and cover all
  /// shards (Pass::parts), and other sums have a fixed order. Call it before prepare.
  void set_deterministic(bool on) { deterministic_ = on; }
  [[nodiscard]] bool deterministic() const { return deterministic_; }

  /// Builds what forward and backward need. Called when shapes or the element type change, never during a step.
  virtual void prepare(const Shapes& in, DType dtype);
  virtual void forward(Pass& pass) = 0;
  virtual void backward(Pass& pass) = 0;
  /// Returns true if backward can run in two stages, of which the second does not change dx. A plan then sends dx while
  /// the gradients of the parameters are computed.
  [[nodiscard]] virtual bool backward_in_two() const { return false; }
  /// The first and the second stage. In a layer without stages, the first one does everything.
  virtual void backward_inputs(Pass& pass) { backward(pass); }
  virtual void backward_parameters(Pass& /*pass*/) {}

 private:
  LayerFields options_;
  bool deterministic_ = false;
};

}  // namespace pleiad::nn

// What a layer is. A layer knows its mathematics and which inputs an output needs, never ranks.
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

/// How a user wants one parameter.
struct Param {
  Init init = {};
  double rate_scale = 1;   ///< times the learning rate
  double decay_scale = 1;  ///< times the weight decay
  std::string share = {};  ///< the name ("layer/weight") of a parameter whose numbers this one is
  /// Above 0: each filter (as many numbers as an output has inputs) is scaled to this L2 norm, at the start and after
  /// each update.
  double norm = 0;
  /// Where several layers share it: the gradient of each is an update of its own, in the order of backward.
  bool apart = false;
};

/// A parameter that a layer asks for.
struct ParamSpec {
  std::string name;  ///< "weight"; in the net "layer/weight"
  Shape shape;
  Param wanted;
  std::int64_t fan_in = 1;
  std::int64_t fan_out = 1;
  bool pieces = false;  ///< backward can hand its gradient to an update piece by piece
};

/// A batch that lies in several places, each of which computes on its part: how a layer learns of the whole.
class PLEIAD_API BatchParts {
 public:
  virtual ~BatchParts() = default;
  [[nodiscard]] virtual int count() const = 0;
  /// Which of them this one is.
  [[nodiscard]] virtual int index() const { return 0; }
  /// Replaces the numbers by their sums over all parts, which call it in the same order. A part may be empty.
  virtual void sum(std::span<double> numbers) = 0;
  /// Of whole numbers, whose sums do not depend on the parts.
  virtual void sum(std::span<std::int64_t> numbers) = 0;
};

/// What a layer works on in one step. The net fills it once, when it is prepared.
struct Pass {
  std::vector<Tensor> x;   ///< inputs
  std::vector<Tensor> y;   ///< outputs
  std::vector<Tensor> dy;  ///< gradients by the outputs; backward may overwrite them
  std::vector<Tensor> dx;  ///< gradients by the inputs; empty where nobody needs one
  std::vector<Tensor> parameter;
  std::vector<Tensor> gradient;  ///< by the parameters, to be written; empty where `update` takes it or nobody needs it
  std::vector<kernel::BlockUpdate*> update;  ///< null, or who takes the gradient piece by piece
  std::vector<Tensor> state;                 ///< numbers that are saved with the parameters but not trained
  std::vector<Tensor> workspace;             ///< from forward to backward
  std::vector<Tensor> carried;               ///< from a batch to the next one of the same phase, sample by sample
  Phase phase = Phase::train;
  std::string name;  ///< of the layer in its net, for random numbers
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::int64_t first_sample = 0;  ///< the place of this batch's first sample in the whole batch of all ranks
  BatchParts* parts = nullptr;    ///< null: this is the whole batch
};

/// A layer's part of images that lie on several ranks: from the places `in` of images in_h x in_w it computes the
/// places `out` of outputs out_h x out_w. `in` is what input_interval says, cut at the image's border.
struct TilePlace {
  Rect in;
  Rect out;
  std::int64_t in_h = 0, in_w = 0;
  std::int64_t out_h = 0, out_w = 0;
};

class Layer;
using LayerPtr = std::unique_ptr<Layer>;

/// A shape with its batch in front, for each input; images are (batch, height, width, channels).
using Shapes = std::vector<Shape>;

/// Options by name, as text.
using LayerFields = std::vector<std::pair<std::string, std::string>>;

/// Mistakes in options and shapes are InvalidArguments that say what was expected and what came; the net adds the
/// layer's name.
class PLEIAD_API Layer {
 public:
  virtual ~Layer() = default;
  [[nodiscard]] virtual std::string kind() const = 0;
  /// The shapes of the outputs, of which there is at least one.
  [[nodiscard]] virtual Shapes outputs(const Shapes& in) const = 0;
  [[nodiscard]] virtual std::vector<ParamSpec> parameters(const Shapes& in) const;
  /// Numbers that are kept from step to step and saved, as running means: name, shape, first value.
  [[nodiscard]] virtual std::vector<ParamSpec> states(const Shapes& in) const;
  /// What forward leaves for backward besides x and y.
  [[nodiscard]] virtual Shapes workspace(const Shapes& in) const;
  /// Numbers of each sample that the batch of the next step finds again (a recurrent layer's last outputs): shapes with
  /// their batch. They begin as 0.
  [[nodiscard]] virtual Shapes carried(const Shapes& in) const;
  /// The element types of input `i` and of output `k`, in a net that computes in `net`: int32 for labels.
  [[nodiscard]] virtual DType input_type(std::size_t i, DType net) const;
  [[nodiscard]] virtual DType output_type(std::size_t k, DType net) const;
  /// Whether input `i` may be of this type: of input_type alone, unless a layer says otherwise.
  [[nodiscard]] virtual bool takes(std::size_t i, DType given, DType net) const;
  /// The places along height (axis 1) or width (axis 2) of the inputs that these places of the output need. The whole
  /// image, where it is not local.
  [[nodiscard]] virtual Interval input_interval(Interval out, int axis) const;
  /// False where outputs depend on more than the places that input_interval names (flatten, dense).
  [[nodiscard]] virtual bool spatial() const { return false; }
  /// A layer that does what this one does to a part of the image, with the same parameters. Null
  /// where it cannot. Of a spatial layer of a known kind, another one like it.
  [[nodiscard]] virtual LayerPtr on_tile(const TilePlace& place) const;
  /// True for a parameter whose first two axes are the places of the output: on a tile, the layer has those of its own.
  [[nodiscard]] virtual bool of_places(std::size_t /*parameter*/) const { return false; }
  /// True where an output place is a sum over input places that reach it, each with a share of its own (transposed
  /// filters): then output_interval says which places of the outputs these places of the inputs reach, on_tile takes
  /// places of inputs and gives all that they reach, and of_places is about the places of the input.
  [[nodiscard]] virtual bool spreads() const { return false; }
  [[nodiscard]] virtual Interval output_interval(Interval in, int axis) const;
  /// True for a loss whose numbers are sums over the places of images that it takes, so that tiles have their shares.
  [[nodiscard]] virtual bool sums_places() const { return false; }
  /// True where the outputs of a sample depend on the other samples of the batch.
  [[nodiscard]] virtual bool couples_samples() const { return false; }
  /// The names of single numbers that a layer gives in place of outputs with a batch, of which the first is the loss.
  [[nodiscard]] virtual std::vector<std::string> metrics() const { return {}; }
  /// False for a layer whose metrics have no loss among them.
  [[nodiscard]] virtual bool has_loss() const { return true; }
  /// True where backward gives a gradient by input `i`.
  [[nodiscard]] virtual bool differentiable(std::size_t i) const;
  /// The parameter that is added to a channel (the last axis) of the first output as the last thing that happens to it:
  /// a bias without an activation; or -1.
  [[nodiscard]] virtual int shift_parameter() const { return -1; }
  /// True where a number that is added to a channel of the first input changes nothing in training: then a shift before
  /// it has the gradient 0, which rounding would make a little noise that rules such as Adam take full steps of.
  [[nodiscard]] virtual bool removes_shift() const { return false; }
  /// Products of one forward pass; backward takes about twice as many.
  [[nodiscard]] virtual double products(const Shapes& in) const;
  /// One line for describe(): "128 filters 5x5".
  [[nodiscard]] virtual std::string summary() const { return {}; }

  /// With make_layer(kind(), options()) another one like it. What is as usual is left out.
  [[nodiscard]] const LayerFields& options() const { return options_; }
  void set_options(LayerFields options) { options_ = std::move(options); }

  /// Before prepare: the same bits however images lie on ranks. Sums over places are made exactly and over all parts
  /// (Pass::parts), others in one order.
  void set_deterministic(bool on) { deterministic_ = on; }
  [[nodiscard]] bool deterministic() const { return deterministic_; }

  /// Called when shapes or the element type change, never in a step: builds what forward and backward need.
  virtual void prepare(const Shapes& in, DType dtype);
  virtual void forward(Pass& pass) = 0;
  virtual void backward(Pass& pass) = 0;
  /// True where backward can be had in two parts, of which the second leaves dx alone: a plan lets that travel while
  /// the parameters' gradients are computed.
  [[nodiscard]] virtual bool backward_in_two() const { return false; }
  /// The first part, then the second. Of a layer that has but one, all of it comes first.
  virtual void backward_inputs(Pass& pass) { backward(pass); }
  virtual void backward_parameters(Pass& /*pass*/) {}

 private:
  LayerFields options_;
  bool deterministic_ = false;
};

}  // namespace pleiad::nn

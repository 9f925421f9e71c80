// The optional interfaces of a layer: what some layers have and others do not. A layer derives from Layer and from the
// interfaces that it has. A net and a plan find them with Layer::capabilities().
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "pleiad/nn/pass.h"

namespace pleiad::nn {

struct DenseOptions;

/// Each position of the outputs depends on the input positions around it, so that a rank can compute one tile of them.
class PLEIAD_API SpatialLayer {
 public:
  /// Returns the positions along height (axis 1) or width (axis 2) of the inputs that the output positions `out` depend
  /// on.
  [[nodiscard]] virtual Interval input_interval(Interval out, int axis) const;
  /// Returns a layer that computes the same on one tile with the same parameters. Null: an equal layer does.
  [[nodiscard]] virtual LayerPtr on_tile(const TilePlace& place) const;
  /// Returns true for a parameter whose first two axes are the positions of the output. A tile holds only its own
  /// positions of such a parameter.
  [[nodiscard]] virtual bool of_places(std::size_t parameter) const;

 protected:
  ~SpatialLayer() = default;
};

/// Each position of the outputs is the sum of contributions from the input positions that reach it (transposed
/// filters).
class PLEIAD_API SpreadingLayer {
 public:
  /// Returns the output positions that the input positions `in` contribute to.
  [[nodiscard]] virtual Interval output_interval(Interval in, int axis) const = 0;
  /// Returns a layer that takes the input positions of a tile and computes all that they contribute to.
  [[nodiscard]] virtual LayerPtr on_tile(const TilePlace& place) const = 0;
  /// Returns true for a parameter whose first two axes are the positions of the input.
  [[nodiscard]] virtual bool of_places(std::size_t parameter) const = 0;

 protected:
  ~SpreadingLayer() = default;
};

/// The output is the input with all axes after the batch joined into one, so that a flattened tile stays where it is.
class PLEIAD_API FlatteningLayer {
 protected:
  virtual ~FlatteningLayer() = default;
};

/// y = f(x * weight^T + bias), with one product for each output.
class PLEIAD_API ProductLayer {
 public:
  [[nodiscard]] virtual const DenseOptions& product() const = 0;

 protected:
  ~ProductLayer() = default;
};

/// Each output of the last axis has its own weights, so that each rank can compute some of the outputs.
class PLEIAD_API OutputSplitLayer {
 public:
  /// Returns why the outputs cannot be split, or an empty text.
  [[nodiscard]] virtual std::string split_obstacle() const = 0;
  /// Returns an equal layer with this many outputs.
  [[nodiscard]] virtual LayerPtr with_outputs(std::int64_t count) const = 0;
  /// Returns the axis of a parameter that holds the outputs.
  [[nodiscard]] virtual int output_axis(std::size_t parameter) const = 0;

 protected:
  ~OutputSplitLayer() = default;
};

/// In training, the outputs of a sample depend on the other samples of the batch.
class PLEIAD_API CoupledLayer {
 public:
  /// Returns the number of sums over the whole batch that forward computes; backward computes as many.
  [[nodiscard]] virtual std::int64_t batch_sums(const Shapes& in) const = 0;

 protected:
  ~CoupledLayer() = default;
};

/// Keeps tensors from step to step that are saved but not trained, such as running means.
class PLEIAD_API StatefulLayer {
 public:
  /// Returns their names, shapes and initial values.
  [[nodiscard]] virtual std::vector<ParamSpec> states(const Shapes& in) const = 0;

 protected:
  ~StatefulLayer() = default;
};

/// Passes values of each sample on to the batch of the next step, such as the last outputs of a recurrent layer.
class PLEIAD_API CarryingLayer {
 public:
  /// Returns the shapes of these values, with the batch. They start as 0.
  [[nodiscard]] virtual Shapes carried(const Shapes& in) const = 0;

 protected:
  ~CarryingLayer() = default;
};

/// Produces single values in place of outputs with a batch: a loss, or a metric.
class PLEIAD_API ScoringLayer {
 public:
  /// Returns the names of the outputs. The first one is the loss, if there is one.
  [[nodiscard]] virtual std::vector<std::string> scores() const = 0;
  /// Returns false for a metric, which has no gradient.
  [[nodiscard]] virtual bool has_loss() const { return true; }
  /// Returns true for a loss that multiplies what each sample adds by Pass::weights.
  [[nodiscard]] virtual bool takes_weights() const { return false; }
  /// Returns true for a loss that is a sum over the positions of its images, so that each tile computes a share of it.
  [[nodiscard]] virtual bool sums_places() const { return false; }

 protected:
  ~ScoringLayer() = default;
};

/// Adds a constant to each channel, or removes such a constant. A shift before a layer that removes it has the gradient
/// 0. Rounding would turn it into noise, from which rules such as Adam take full steps.
class PLEIAD_API ShiftLayer {
 public:
  /// Returns the index of the parameter that is added to each channel (the last axis) of the first output as the last
  /// operation, as a bias without an activation is; -1 if there is none.
  [[nodiscard]] virtual int shift_parameter() const { return -1; }
  /// Returns true if adding a constant to a channel of the first input changes nothing in training.
  [[nodiscard]] virtual bool removes_shift() const { return false; }

 protected:
  ~ShiftLayer() = default;
};

/// Backward can run in two stages. A plan sends the gradients of the inputs while the second stage runs.
class PLEIAD_API TwoStageLayer {
 public:
  virtual void backward_inputs(Pass& pass) = 0;
  /// Computes the gradients of the parameters. Does not change dx.
  virtual void backward_parameters(Pass& pass) = 0;

 protected:
  ~TwoStageLayer() = default;
};

/// A pointer to an optional interface, or null. It has no default, so the code that fills Capabilities must name each
/// interface, and a layer that wraps another one cannot forget any.
template <class Interface>
class Capability {
 public:
  Capability(const Interface* interface) : interface_(interface) {}
  operator const Interface*() const { return interface_; }
  [[nodiscard]] const Interface* operator->() const { return interface_; }

 private:
  const Interface* interface_;
};

/// The optional interfaces that a layer has. They live as long as the layer.
struct Capabilities {
  Capability<SpatialLayer> spatial;
  Capability<SpreadingLayer> spreading;
  Capability<FlatteningLayer> flattening;
  Capability<ProductLayer> product;
  Capability<OutputSplitLayer> output_split;
  Capability<CoupledLayer> coupled;
  Capability<StatefulLayer> stateful;
  Capability<CarryingLayer> carrying;
  Capability<ScoringLayer> scoring;
  Capability<ShiftLayer> shift;
  Capability<TwoStageLayer> two_stage;
};

}  // namespace pleiad::nn

// The interface of a layer. A layer knows its mathematics and which inputs an output depends on. It never knows about
// ranks.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "pleiad/api.h"
#include "pleiad/nn/capability.h"
#include "pleiad/nn/pass.h"

namespace pleiad::nn {

/// A layer of a net. Mistakes in options and shapes are InvalidArguments that say what was expected and what was
/// received; the net adds the layer's name.
class PLEIAD_API Layer {
 public:
  virtual ~Layer() = default;
  [[nodiscard]] virtual std::string kind() const = 0;
  /// Returns the shapes of the outputs, at least one.
  [[nodiscard]] virtual Shapes outputs(const Shapes& in) const = 0;
  [[nodiscard]] virtual std::vector<ParamSpec> parameters(const Shapes& in) const;
  /// Returns the shapes of what forward saves for backward besides x and y.
  [[nodiscard]] virtual Shapes workspace(const Shapes& in) const;
  /// input_type() and output_type() return the element types of input `i` and output `k` in a net with the type `net`,
  /// such as int32 for labels.
  [[nodiscard]] virtual DType input_type(std::size_t i, DType net) const;
  [[nodiscard]] virtual DType output_type(std::size_t k, DType net) const;
  /// Returns whether input `i` may have the type `given`. By default only input_type is accepted.
  [[nodiscard]] virtual bool takes(std::size_t i, DType given, DType net) const;
  /// Returns true if backward computes a gradient of input `i`.
  [[nodiscard]] virtual bool differentiable(std::size_t i) const;
  /// Returns the number of multiplications in one forward pass; backward takes about twice as many.
  [[nodiscard]] virtual double products(const Shapes& in) const;
  /// Returns one line for describe(), such as "128 filters 5x5".
  [[nodiscard]] virtual std::string summary() const { return {}; }
  /// Returns the optional interfaces: by default those that the class derives from. A layer that has one of them only
  /// with some options sets the others to null.
  [[nodiscard]] virtual Capabilities capabilities() const;

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

 private:
  LayerFields options_;
  bool deterministic_ = false;
};

/// Returns a layer that computes the same as `layer` on one tile with the same parameters, or null if that is not
/// possible.
[[nodiscard]] PLEIAD_API LayerPtr on_tile(const Layer& layer, const TilePlace& place);

/// Returns true if the parameter has values per position, of which a tile holds only its own.
[[nodiscard]] PLEIAD_API bool of_places(const Layer& layer, std::size_t parameter);

/// Returns the states of a layer, and the shapes of what it carries to the next batch; empty if it has none.
[[nodiscard]] PLEIAD_API std::vector<ParamSpec> states_of(const Layer& layer, const Shapes& in);
[[nodiscard]] PLEIAD_API Shapes carried_by(const Layer& layer, const Shapes& in);

/// Returns the names of the single values that a layer produces; empty for a layer whose outputs have a batch.
[[nodiscard]] PLEIAD_API std::vector<std::string> scores_of(const Layer& layer);

/// Returns the stages of the layer's backward, or null if it has none.
[[nodiscard]] PLEIAD_API TwoStageLayer* two_stages_of(Layer& layer);

}  // namespace pleiad::nn

// Base of the layers that wrap another layer, such as those that replace a layer of a rank's net, and report its
// properties.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "pleiad/nn/layer.h"

namespace pleiad::nn {

class LayerProxy : public Layer, public StatefulLayer, public CarryingLayer {
 public:
  explicit LayerProxy(LayerPtr whole) : whole_(std::move(whole)) { set_options(whole_->options()); }

  [[nodiscard]] std::string kind() const override { return whole_->kind(); }
  [[nodiscard]] std::string summary() const override { return whole_->summary(); }
  [[nodiscard]] bool differentiable(std::size_t i) const override { return whole_->differentiable(i); }
  [[nodiscard]] DType input_type(std::size_t i, DType net) const override { return whole_->input_type(i, net); }
  [[nodiscard]] DType output_type(std::size_t k, DType net) const override { return whole_->output_type(k, net); }
  [[nodiscard]] bool takes(std::size_t i, DType given, DType net) const override {
    return whole_->takes(i, given, net);
  }
  [[nodiscard]] std::vector<ParamSpec> states(const Shapes& in) const final {
    return states_of(*whole_, full_shapes(in));
  }
  [[nodiscard]] Shapes carried(const Shapes& in) const final { return carried_by(*whole_, full_shapes(in)); }

  /// A proxy is not placed a second time, and it divides its backward itself. All else is as in the wrapped layer.
  [[nodiscard]] Capabilities capabilities() const final {
    const Capabilities whole = whole_->capabilities();
    return {.spatial = nullptr,
            .spreading = nullptr,
            .flattening = nullptr,
            .product = nullptr,
            .output_split = nullptr,
            .coupled = whole.coupled,
            .stateful = this,
            .carrying = this,
            .scoring = whole.scoring,
            .shift = whole.shift,
            .two_stage = nullptr};
  }

 protected:
  /// Returns the shapes of the wrapped layer's inputs, given those of this one.
  [[nodiscard]] virtual Shapes full_shapes(const Shapes& in) const { return in; }

  const LayerPtr whole_;
};

}  // namespace pleiad::nn

// Base of the layers that replace a layer of a rank's net and report its properties.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "pleiad/nn/layer.h"

namespace pleiad {

class LayerProxy : public nn::Layer {
 public:
  explicit LayerProxy(nn::LayerPtr whole) : whole_(std::move(whole)) { set_options(whole_->options()); }

  [[nodiscard]] std::string kind() const override { return whole_->kind(); }
  [[nodiscard]] std::string summary() const override { return whole_->summary(); }
  [[nodiscard]] int shift_parameter() const override { return whole_->shift_parameter(); }
  [[nodiscard]] bool removes_shift() const override { return whole_->removes_shift(); }
  [[nodiscard]] bool differentiable(std::size_t i) const override { return whole_->differentiable(i); }
  [[nodiscard]] std::vector<std::string> metrics() const override { return whole_->metrics(); }
  [[nodiscard]] bool has_loss() const override { return whole_->has_loss(); }
  [[nodiscard]] DType input_type(std::size_t i, DType net) const override { return whole_->input_type(i, net); }
  [[nodiscard]] DType output_type(std::size_t k, DType net) const override { return whole_->output_type(k, net); }

 protected:
  const nn::LayerPtr whole_;
};

}  // namespace pleiad

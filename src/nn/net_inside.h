// What a net is made of.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "pleiad/nn/net.h"

namespace pleiad::nn {

/// What flows along an edge: an input, or one output of a layer.
struct Value {
  std::string name;
  Shape sample = {};              // inputs only
  std::optional<Rect> tile = {};  // inputs only: what this process holds of an image
  DType dtype = DType::float32;
  int producer = -1;  // a node, or -1 for an input
  std::vector<int> consumers = {};
  bool single = false;  // a loss or metric: its shape has no batch
  bool needs_gradient = false;
  Tensor data = {};
  Tensor gradient = {};

  /// What this process holds of a sample of an input.
  [[nodiscard]] Shape held() const { return tile ? Shape{tile->h.size(), tile->w.size(), sample[2]} : sample; }
};

struct Node {
  std::string name;
  LayerPtr layer;
  std::vector<int> inputs = {};   // values
  std::vector<int> outputs = {};  // values
  std::vector<int> parameters = {};
  std::vector<int> states = {};
  std::vector<Tensor> sums = {};       // beside pass.dx: where the piece is added to, if this is not the first consumer
  std::vector<Tensor> own_piece = {};  // beside pass.gradient: where the piece of a shared parameter is added to
  unsigned phases = 0;
  bool needs_gradient = false;
  bool metrics = false;  // its outputs are single numbers
  bool loss = false;
  std::array<std::map<std::int64_t, std::vector<Tensor>>, 2> carried = {};  // in training and elsewhere, by batch
  Pass pass = {};
};

struct Net::Inside {
  NetOptions options;
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<Parameter> parameters;
  std::vector<std::pair<std::string, Tensor>> states;
  std::vector<kernel::BlockUpdate*> updates;  // beside parameters
  std::map<std::string, int> value_of;        // "layer", "layer:0", "layer:1", inputs
  std::map<std::string, int> node_of;
  std::map<std::string, int> parameter_of;
  std::int64_t batch = 0;
  std::size_t activation_bytes = 0;
  std::size_t gradient_bytes = 0;
  Phase phase = Phase::train;
  bool forward_done = false;
  bool deterministic = false;
  double gradient_scale = 1;
  BatchParts* parts = nullptr;
  Trace* trace = nullptr;
  std::vector<int> active_uses;                  // beside parameters: layers that give a gradient in training
  std::vector<int> uses_left;                    // of a backward pass that is under way
  std::vector<std::pair<Tensor, double>> seeds;  // what gradients of outputs start as

  [[nodiscard]] Shapes input_shapes(const Node& node) const;
  void add_parameters(Node& node);
  /// Which nodes backward goes through, by which parameters are trained.
  void find_gradients();
  void plan_activations();
  void plan_gradients();
  void bind();
  [[nodiscard]] bool is_loss(const Value& value) const;
  /// The node and the input of it that write the value's gradient; further ones add to it. {-1, 0} where there is none.
  [[nodiscard]] std::pair<int, std::size_t> first_consumer_in_backward(const Value& value) const;
  /// Whether all that becomes of the first output is the same where a number is added to a channel of it.
  [[nodiscard]] bool shift_is_removed(const Node& node) const;
  [[nodiscard]] bool active(const Node& node) const { return (node.phases & static_cast<unsigned>(phase)) != 0; }
  [[nodiscard]] int find_value(const std::string& who, const std::string& name) const;
};

}  // namespace pleiad::nn

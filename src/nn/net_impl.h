// The private data of a net: its values, nodes and parameters.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "pleiad/nn/net.h"

namespace pleiad::nn {

/// An edge of the graph: an input of the net or one output of a layer.
struct Value {
  std::string name;
  Shape sample = {};              // inputs only
  std::optional<Rect> tile = {};  // inputs only: the tile of the image that this process holds
  DType dtype = DType::float32;
  int producer = -1;  // index of the node that computes it; -1 for an input
  std::vector<int> consumers = {};
  bool single = false;  // a loss or metric, whose shape has no batch axis
  bool needs_gradient = false;
  Tensor data = {};
  Tensor gradient = {};

  /// Returns the shape of the part of a sample that this process holds. Inputs only.
  [[nodiscard]] Shape held() const { return tile ? Shape{tile->h.size(), tile->w.size(), sample[2]} : sample; }
};

struct Node {
  std::string name;
  LayerPtr layer;
  std::vector<int> inputs = {};   // indices into values
  std::vector<int> outputs = {};  // indices into values
  std::vector<int> parameters = {};
  std::vector<int> states = {};
  // parallel to pass.dx: the tensor that dx is added to; empty for the consumer that writes it first
  std::vector<Tensor> sums = {};
  // parallel to pass.gradient: the shared gradient that this node's contribution is added to
  std::vector<Tensor> own_piece = {};
  unsigned phases = 0;
  bool needs_gradient = false;
  std::vector<std::string> scores = {};  // names of its outputs if they are single values, not one per sample
  bool loss = false;
  // hidden state by batch size: [0] in training, [1] in the other phases
  std::array<std::map<std::int64_t, std::vector<Tensor>>, 2> carried = {};
  Pass pass = {};
};

struct Net::Impl {
  NetOptions options;
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<Parameter> parameters;
  std::vector<std::pair<std::string, Tensor>> states;
  std::vector<kernel::BlockUpdate*> updates;  // parallel to parameters
  std::map<std::string, int> value_of;        // keys: inputs, "layer", "layer:0", "layer:1"
  std::map<std::string, int> node_of;
  std::map<std::string, int> parameter_of;
  std::int64_t batch = 0;
  std::size_t activation_bytes = 0;
  std::size_t gradient_bytes = 0;
  Phase phase = Phase::train;
  bool forward_done = false;
  bool deterministic = false;
  bool placeholder = false;
  bool weighted = false;
  Tensor weights;  // (batch): the factor of each sample in the losses
  double gradient_scale = 1;
  BatchParts* parts = nullptr;
  Trace* trace = nullptr;
  std::vector<int> active_uses;  // parallel to parameters: number of layers that contribute to the gradient in training
  std::vector<int> uses_left;  // parallel to parameters: contributions that the current backward pass still has to add
  std::vector<std::pair<Tensor, double>> seeds;  // output gradients and the values they are filled with before backward

  [[nodiscard]] Shapes input_shapes(const Node& node) const;
  void add_parameters(Node& node);
  /// Determines which nodes backward visits. These are the nodes with parameters that are trained, and all nodes that
  /// depend on them.
  void find_gradients();
  void plan_activations();
  void plan_gradients();
  void bind();
  [[nodiscard]] bool is_loss(const Value& value) const;
  /// Returns the node, and the index of its input, that writes the gradient of the value first. All other consumers add
  /// to it. Returns {-1, 0} if no consumer computes a gradient.
  [[nodiscard]] std::pair<int, std::size_t> first_consumer_in_backward(const Value& value) const;
  /// Returns true if adding a constant to a channel of the node's first output does not change any result.
  [[nodiscard]] bool shift_is_removed(const Node& node) const;
  [[nodiscard]] bool active(const Node& node) const { return (node.phases & static_cast<unsigned>(phase)) != 0; }
  [[nodiscard]] int find_value(const std::string& who, const std::string& name) const;
};

}  // namespace pleiad::nn

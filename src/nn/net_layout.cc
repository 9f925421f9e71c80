// Changes a net so that this process holds only a part of it: tiles of images, and the layers that work on them.
#include <fmt/format.h>

#include "nn/net_impl.h"
#include "pleiad/error.h"

namespace pleiad::nn {

void NetControl::lay_out(const std::map<std::string, Rect>& tiles,
                         const std::function<LayerPtr(const std::string& name, LayerPtr layer)>& with) {
  Net::Impl& in = *net_->impl_;
  in.batch = 0;
  for (Value& value : in.values) {
    if (value.producer >= 0) continue;
    if (const auto found = tiles.find(value.name); found != tiles.end()) value.tile = found->second;
    value.data = Tensor(value.dtype, value.held().with_batch(1), nullptr);
  }
  std::map<int, Shape> shapes;  // by parameter index
  for (Node& node : in.nodes) {
    node.layer = with(node.name, std::move(node.layer));
    const Shapes from = in.input_shapes(node);
    const Shapes to = node.layer->outputs(from);
    const std::vector<ParamSpec> specs = node.layer->parameters(from);
    if (to.size() != node.outputs.size() || specs.size() != node.parameters.size()) {
      throw InternalError(fmt::format("layer \"{}\": its tile layer has different outputs or parameters", node.name));
    }
    for (std::size_t k = 0; k < to.size(); ++k) {
      Value& value = in.values[static_cast<std::size_t>(node.outputs[k])];
      value.data = Tensor(value.dtype, to[k], nullptr);
    }
    for (std::size_t i = 0; i < specs.size(); ++i) {
      Parameter& parameter = in.parameters[static_cast<std::size_t>(node.parameters[i])];
      parameter.pieces = parameter.pieces && specs[i].pieces;
      // Layers that share a parameter must hold the same part of it.
      const auto [seen, first] = shapes.try_emplace(node.parameters[i], specs[i].shape);
      if (first && parameter.value.shape() == specs[i].shape) continue;
      if (!first && seen->second == specs[i].shape) continue;
      if (!first) {
        throw InvalidArgument(fmt::format("layer \"{}\": its {} is shared with a layer that holds another part of it",
                                          node.name, specs[i].name));
      }
      parameter.value = Tensor(in.options.dtype, specs[i].shape);
      parameter.gradient = {};
    }
  }
}

std::optional<Rect> NetGraph::input_tile(const std::string& name) const {
  return net_->impl_->values[static_cast<std::size_t>(net_->impl_->find_value("input_tile", name))].tile;
}

Shape NetGraph::input_sample(const std::string& name) const {
  return net_->impl_->values[static_cast<std::size_t>(net_->impl_->find_value("input_sample", name))].sample;
}

Placement NetGraph::placement(const std::string& name) const {
  (void)net_->layer(name);  // throws an error that lists the known layers
  const Node& node = net_->impl_->nodes[static_cast<std::size_t>(net_->impl_->node_of.at(name))];
  Placement placement{.inputs = {}, .phases = {}};
  for (const int id : node.inputs) placement.inputs.push_back(net_->impl_->values[static_cast<std::size_t>(id)].name);
  for (const Phase phase : {Phase::train, Phase::validate, Phase::test}) {
    if ((node.phases & static_cast<unsigned>(phase)) != 0) placement.phases.push_back(phase);
  }
  return placement;
}

}  // namespace pleiad::nn

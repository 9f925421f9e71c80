#include "pleiad/nn/layer.h"

#include <algorithm>

#include "pleiad/nn/layers.h"

namespace pleiad::nn {

Interval SpatialLayer::input_interval(Interval out, int) const { return out; }
LayerPtr SpatialLayer::on_tile(const TilePlace&) const { return nullptr; }
bool SpatialLayer::of_places(std::size_t) const { return false; }

std::vector<ParamSpec> Layer::parameters(const Shapes&) const { return {}; }
Shapes Layer::workspace(const Shapes&) const { return {}; }
DType Layer::input_type(std::size_t, DType net) const { return net; }
DType Layer::output_type(std::size_t, DType net) const { return net; }
bool Layer::takes(std::size_t i, DType given, DType net) const { return given == input_type(i, net); }
bool Layer::differentiable(std::size_t) const { return true; }
double Layer::products(const Shapes&) const { return 0; }
void Layer::prepare(const Shapes&, DType) {}

Capabilities Layer::capabilities() const {
  return {.spatial = dynamic_cast<const SpatialLayer*>(this),
          .spreading = dynamic_cast<const SpreadingLayer*>(this),
          .flattening = dynamic_cast<const FlatteningLayer*>(this),
          .product = dynamic_cast<const ProductLayer*>(this),
          .output_split = dynamic_cast<const OutputSplitLayer*>(this),
          .coupled = dynamic_cast<const CoupledLayer*>(this),
          .stateful = dynamic_cast<const StatefulLayer*>(this),
          .carrying = dynamic_cast<const CarryingLayer*>(this),
          .scoring = dynamic_cast<const ScoringLayer*>(this),
          .shift = dynamic_cast<const ShiftLayer*>(this),
          .two_stage = dynamic_cast<const TwoStageLayer*>(this)};
}

LayerPtr on_tile(const Layer& layer, const TilePlace& place) {
  const Capabilities has = layer.capabilities();
  if (has.spreading != nullptr) return has.spreading->on_tile(place);
  if (has.spatial == nullptr) return nullptr;
  if (LayerPtr part = has.spatial->on_tile(place)) return part;
  const std::vector<std::string> kinds = layer_kinds();
  const bool known = std::ranges::find(kinds, layer.kind()) != kinds.end();
  return known ? make_layer(layer.kind(), layer.options()) : nullptr;
}

bool of_places(const Layer& layer, std::size_t parameter) {
  const Capabilities has = layer.capabilities();
  if (has.spreading != nullptr) return has.spreading->of_places(parameter);
  return has.spatial != nullptr && has.spatial->of_places(parameter);
}

std::vector<ParamSpec> states_of(const Layer& layer, const Shapes& in) {
  const StatefulLayer* const stateful = layer.capabilities().stateful;
  return stateful == nullptr ? std::vector<ParamSpec>() : stateful->states(in);
}

Shapes carried_by(const Layer& layer, const Shapes& in) {
  const CarryingLayer* const carrying = layer.capabilities().carrying;
  return carrying == nullptr ? Shapes() : carrying->carried(in);
}

std::vector<std::string> scores_of(const Layer& layer) {
  const ScoringLayer* const scoring = layer.capabilities().scoring;
  return scoring == nullptr ? std::vector<std::string>() : scoring->scores();
}

TwoStageLayer* two_stages_of(Layer& layer) {
  const TwoStageLayer* const stages = layer.capabilities().two_stage;
  return const_cast<TwoStageLayer*>(stages);  // the layer itself is not const
}

}  // namespace pleiad::nn
